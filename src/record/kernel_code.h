// What a record's kernel pointer refers to: everything that executing a launch needs to know.
#pragma once

#include <memory>
#include <string>

#include "record/layout.h"
#include "slipway/signature.h"

namespace slipway::internal {

// Drivers derive from it. The front door shares it among kernels, plans and graphs, and drops it through the
// retire list; records refer to it by address.
struct KernelCode : std::enable_shared_from_this<KernelCode> {
  KernelEntry entry = nullptr;    // cpu only
  const void* context = nullptr;  // cpu only: third argument of entry
  std::string name;
  Signature signature;
  ArgumentLayout layout;
  std::uint64_t most_blocks = 0;  // that one launch starts, each doing several of the grid's; 0: one for each
  std::shared_ptr<void> module;   // what must stay loaded for as long as the code may run

  virtual ~KernelCode() = default;
};

}  // namespace slipway::internal
