// The null device: accepts and counts everything, can store what it was given, runs nothing. With busy_us it
// is a timed device: a worker that is busy for that long per kernel, to measure how well a host keeps it fed.
#pragma once

#include "device/driver.h"

namespace slipway::internal {

extern const DriverEntry kNullDriver;

}  // namespace slipway::internal
