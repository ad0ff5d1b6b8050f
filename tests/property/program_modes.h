// The ways in which a random program is run.
#pragma once

#include "slipway/graph.h"

namespace slipway::property {

// How a program's steps are run. Numbers, so that a table of modes is short.
struct Mode {
  const char* name;
  bool graph = false;
  int way = -1;        // general, plans, call sites; -1: as each node says
  bool held = false;   // everything is submitted before any of it runs
  unsigned depth = 1;  // of a graph
  Tier tier = Tier::kAuto;
  bool open = false;  // launched without values, which are published in another order
  bool updater = false;
  bool serial = false;
  bool twice = false;    // two executables take turns
  bool streams = false;  // steps go to one stream and another in turns
};

// clang-format off
inline constexpr Mode kModes[] = {
    {.name = "general", .way = 0},
    {.name = "plans", .way = 1},
    {.name = "sites", .way = 2},
    {.name = "mixed"},
    {.name = "queued", .held = true},
    {.name = "graph", .graph = true},
    {.name = "overlapped", .graph = true, .depth = 2},
    {.name = "open 4", .graph = true, .depth = 4, .open = true},
    {.name = "open 2, late", .graph = true, .depth = 2, .tier = Tier::kReadLate, .open = true},
    {.name = "open 2, cut", .graph = true, .depth = 2, .tier = Tier::kCut, .open = true},
    {.name = "cut 4, queued", .graph = true, .held = true, .depth = 4, .tier = Tier::kCut},
    {.name = "queued 4", .graph = true, .held = true, .depth = 4},
    {.name = "updater", .graph = true, .depth = 2, .updater = true},
    {.name = "serial, open 2", .graph = true, .depth = 2, .open = true, .serial = true},
    {.name = "two executables", .graph = true, .depth = 2, .twice = true},
    {.name = "two streams", .graph = true, .depth = 4, .streams = true},
};
// clang-format on

}  // namespace slipway::property
