// What a viewer shows below each other. Slices of one row must nest: submissions of a stream, their nodes and gate
// waits do. What does not, as updates of two publishers at once, goes to a further row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slipway/trace.h"

namespace slipway::internal {

struct Slice {
  const TimelineEntry* entry;
  std::string name;
  const char* category;
  std::int64_t start_ns, end_ns;
  bool is_unfinished = false;
  unsigned row = 0;
};

struct Instant {
  const TimelineEntry* entry;
  std::string name;
  const char* category;
  std::int64_t at_ns;
  bool is_unfinished = false;
};

struct Track {
  std::string name;
  std::vector<Slice> slices;
  std::vector<Instant> instants;
  unsigned first_tid = 0, rows = 1;
};

// Sorts the slices by time, and puts each into the first row where it lies inside or behind what is there.
void place_in_rows(Track& track);

}  // namespace slipway::internal
