// What the shared library shows to others. Everything not marked stays hidden.
#pragma once

#if defined(__GNUC__)
#define SLIPWAY_API __attribute__((visibility("default")))
#else
#define SLIPWAY_API
#endif
