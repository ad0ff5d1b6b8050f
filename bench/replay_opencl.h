// Replays on OpenCL: the peer, a command buffer (cl_khr_command_buffer) by hand, and Slipway's own.
#pragma once

#include "suites.h"

namespace bench {

// Rows "OpenCL command buffer", or a line in the report that says why not.
void add_command_buffer(Rows& rows, Report& report, int nodes);

// Slipway's own device and a graph of 8,192 nodes: printed, and among the figures (large_graph.cpp).
void measure_large_graph(Report& report, bool quick);

}  // namespace bench
