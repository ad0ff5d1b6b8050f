// The in-process CPU device: streams run on workers of their own, or in-line on the threads that submit.
#pragma once

#include "device/driver.h"

namespace slipway::internal {

extern const DriverEntry kCpuDriver;

}  // namespace slipway::internal
