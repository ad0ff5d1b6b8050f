// Everything that programs use. tests use slipway/testing.h beside it.
#pragma once

#include "slipway/argument.h"
#include "slipway/device.h"
#include "slipway/error.h"
#include "slipway/export.h"
#include "slipway/graph.h"
#include "slipway/grid.h"
#include "slipway/memory.h"
#include "slipway/module.h"
#include "slipway/plan.h"
#include "slipway/signature.h"
#include "slipway/stream.h"
#include "slipway/trace.h"
#include "slipway/types.h"
#include "slipway/version.h"
