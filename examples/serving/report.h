// One table, or one JSON object, of what the orders took.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "serve.h"

namespace slipway::serving {

struct Report {
  struct Row {
    std::string order;
    std::vector<Outcome> rounds;
    std::optional<Outcome> traced{};  // of graphs: one more run, with the timeline on, which slows it
    double gate_seconds = 0;          // a replay's waiting at gates, in that run

    bool equal_to(const Row& plain) const;
  };
  std::string device;
  std::size_t requests = 0;
  std::size_t draft = 0;
  long plan_cost_us = 0;
  bool plan_sleeps = false;
  std::vector<Row> rows;  // the first is plain decoding

  bool all_equal() const;
  void print_table(std::FILE* to) const;
  void print_json(std::FILE* to) const;
};

}  // namespace slipway::serving
