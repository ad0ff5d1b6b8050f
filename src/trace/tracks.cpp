#include "trace/tracks.h"

#include <algorithm>

namespace slipway::internal {

void place_in_rows(Track& track) {
  std::stable_sort(track.slices.begin(), track.slices.end(), [](const Slice& a, const Slice& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  std::vector<std::vector<std::int64_t>> open_ends;  // of each row, outermost first
  for (Slice& slice : track.slices) {
    for (slice.row = 0;; ++slice.row) {
      if (slice.row == open_ends.size()) open_ends.emplace_back();
      auto& ends = open_ends[slice.row];
      while (!ends.empty() && ends.back() <= slice.start_ns) ends.pop_back();
      if (!ends.empty() && ends.back() < slice.end_ns) continue;
      ends.push_back(slice.end_ns);
      break;
    }
  }
  track.rows = std::max<unsigned>(1, static_cast<unsigned>(open_ends.size()));
}

}  // namespace slipway::internal
