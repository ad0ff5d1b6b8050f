// What a record's kernel pointer refers to: everything that executing a launch needs to know.
#pragma once

#include <string>

#include "record/layout.h"
#include "slipway/signature.h"

namespace slipway::internal {

// Drivers derive from it; the front door owns it through the retire list.
struct KernelCode {
  KernelEntry entry = nullptr;    // cpu only
  const void* context = nullptr;  // cpu only: third argument of entry
  std::string name;
  Signature signature;
  ArgumentLayout layout;

  virtual ~KernelCode() = default;
};

}  // namespace slipway::internal
