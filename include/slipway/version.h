// The version of Slipway (Semantic Versioning 2.0). CMake reads it from here.
#pragma once

#define SLIPWAY_VERSION_MAJOR 0
#define SLIPWAY_VERSION_MINOR 1
#define SLIPWAY_VERSION_PATCH 0

// One number to compare with: 1.2.3 is 10203.
#define SLIPWAY_VERSION (SLIPWAY_VERSION_MAJOR * 10000 + SLIPWAY_VERSION_MINOR * 100 + SLIPWAY_VERSION_PATCH)

#include "slipway/export.h"

namespace slipway {

// The version of the library that was loaded, which may differ from SLIPWAY_VERSION, the one that was
// compiled against. Any thread.
SLIPWAY_API int runtime_version() noexcept;

// The same as text, "0.1.0". The string lives as long as the program. Any thread.
SLIPWAY_API const char* runtime_version_string() noexcept;

}  // namespace slipway
