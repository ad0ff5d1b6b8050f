// The options of a device URI that every driver with an engine has: spin_us, affinity, blocking, wait_limit_ms.
#pragma once

#include "base/status.h"
#include "base/uri.h"
#include "device/driver.h"
#include "engine/engine.h"

namespace slipway::internal {

// Fills all of `options` but the thread's name, and the environment's rules. `workers` is what the driver read.
Status read_engine_options(const Uri& uri, unsigned workers, EngineOptions& options, DriverEnvironment& environment);

}  // namespace slipway::internal
