// The one file that names the drivers that exist.
#include <array>

#include "device/driver.h"
#include "drivers/cpu/cpu_driver.h"
#include "drivers/null/null_driver.h"
#include "drivers/sim/sim_driver.h"
#if defined(SLIPWAY_HAVE_OPENCL_DRIVER)
#include "drivers/opencl/opencl_driver.h"
#endif

namespace slipway::internal {

std::span<const DriverEntry> driver_table() noexcept {
  // clang-format off
  static const std::array kDrivers{
      kCpuDriver, kNullDriver, kSimDriver,
#if defined(SLIPWAY_HAVE_OPENCL_DRIVER)
      kOpenClDriver,
#endif
  };
  // clang-format on
  return kDrivers;
}

}  // namespace slipway::internal
