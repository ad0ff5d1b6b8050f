// The peer of a replay: a command buffer of OpenCL (cl_khr_command_buffer), by hand.
#pragma once

#include "suites.h"

namespace bench {

// Rows "OpenCL command buffer", or a line in the report that says why not.
void add_command_buffer(Rows& rows, Report& report, int nodes);

}  // namespace bench
