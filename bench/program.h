// What all benchmark programs have in common: options, rows in turns, goals and figures.
#pragma once

#include "suites.h"

namespace bench {

struct Program {
  const char* title;
  int rounds;
  void (*add)(Rows& rows, Partner& partner, Report& report);
  void (*judge)(const Rows& rows, Report& report) = nullptr;                       // rows into goals
  void (*measure)(Report& report, const std::string& only, bool quick) = nullptr;  // what is no row
};

int run_program(const Program& program, int argc, char** argv);

}  // namespace bench
