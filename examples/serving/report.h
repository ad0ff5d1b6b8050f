// One table, or one JSON object, of what the orders took.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "serve.h"

namespace slipway::serving {

struct Report {
  struct Row {
    std::string order;
    std::vector<Outcome> rounds;
    double gate_us_per_step = -1;  // a replay's waiting at gates; negative where there are none

    bool equal_to(const Row& plain) const;
  };
  std::string device;
  std::size_t requests = 0;
  std::size_t draft = 0;
  long plan_cost_us = 0;
  std::vector<Row> rows;  // the first is plain decoding

  bool all_equal() const;
  void print_table(std::FILE* to) const;
  void print_json(std::FILE* to) const;
};

}  // namespace slipway::serving
