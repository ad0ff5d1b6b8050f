// Does a graph's replay do what its work does when it is submitted piece by piece? To be asked while a program is made,
// or when a result is doubted: it runs the work several times, and waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slipway/export.h"
#include "slipway/graph.h"

namespace slipway {

struct SelfCheckOptions {
  // With 0 memory is compared bit for bit. Otherwise as elements of this type, f32 or f64, of which two may differ by
  // as much; what is no number equals what is no number.
  double tolerance = 0;
  DType elements = DType::kF32;
  WaitLimit limit = kDefaultWaitLimit;  // of each wait
};

struct SelfCheckResult {
  bool equal = true;
  std::size_t nodes_run = 0;  // one at a time
  // When they differ: the first node behind which they do, and where.
  std::size_t node = 0;
  std::string node_name{};
  std::uint64_t block_bytes = 0;     // of the memory block
  std::uint64_t offset_bytes = 0;    // in it
  std::string difference{};          // a sentence that says all of it
  std::vector<std::string> notes{};  // what could not be compared
};

// Replays one step with these values, and runs its nodes one at a time on the stream, both from what the graph's memory
// holds now, which is put back at the end. Compared are the memory blocks that the graph refers to, except memory that
// Slipway does not know (a note says so), and what it copies to the host. When they differ, beginnings of the graph are
// replayed to find the node. Operations are computed once for each run. A conditional node is one node here, whose
// bodies run as its condition says at that point; FailedPrecondition when the condition lies in memory that Slipway
// does not know, and would not be put back. Random numbers are those that the next step would draw, in each run, and
// their generators are put back. Unsupported when a node is a host function or an external operation, which cannot be
// run again as if nothing had happened. What kernels throw is thrown. Nobody else may use the stream, the
// graph, its memory or its generators meanwhile.
SLIPWAY_API SelfCheckResult self_check(const ExecutableGraph& graph, const Stream& stream, const StepValues& values,
                                       const SelfCheckOptions& options = {});

}  // namespace slipway
