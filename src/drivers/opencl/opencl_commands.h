// Records as OpenCL commands. Nothing here waits or keeps anything; a command that was enqueued has its event in
// `event`, which stays empty where there was nothing to enqueue (an empty grid, 0 bytes).
#pragma once

#include <cstddef>

#include "base/status.h"
#include "drivers/opencl/opencl_context.h"
#include "record/record.h"

namespace slipway::internal {

// Error sentences begin with what failed and do not name the kernel; the stream adds name and sequence number.
Status enqueue_launch(ClContext& context, cl_command_queue queue, const LaunchRecord& launch, ClEvent& event);

// `host_source`, where given, is read instead of the record's `from`, and must live until the event completes.
Status enqueue_copy(ClContext& context, cl_command_queue queue, const CopyRecord& copy, const void* host_source,
                    ClEvent& event);

Status enqueue_fill(ClContext& context, cl_command_queue queue, const FillRecord& fill, ClEvent& event);

Status enqueue_marker(ClContext& context, cl_command_queue queue, ClEvent& event);

// What follows in the queue waits for `awaited`.
Status enqueue_wait(ClContext& context, cl_command_queue queue, const ClEvent& awaited, ClEvent& event);

// The execution status of a command: kClComplete, above it when it has not ended, below it when it failed.
cl_int execution_status(const ClSymbols& cl, const ClEvent& event) noexcept;

}  // namespace slipway::internal
