// The OpenCL driver: one device of one platform, OpenCL 1.2 or newer, through whatever ICD loader is installed.
//
// What OpenCL cannot express and is Unsupported, by name: kernel tables and shared libraries (load_source takes
// OpenCL C); shared bytes for a kernel without a __local pointer behind its parameters; tensors that begin between two
// multiples of info().tensor_alignment, and adopted memory, with memory=buffer; fills at addresses that are no
// multiple of their pattern. Kernels that fault may take the process down with them: it depends on the implementation.
// When the device fails a command, what was in its queue behind it runs or not, as the implementation likes; what was
// still in the ring is discarded.
#pragma once

#include "device/driver.h"

namespace slipway::internal {

extern const DriverEntry kOpenClDriver;

}  // namespace slipway::internal
