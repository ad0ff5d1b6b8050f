#include "graph/load_kernels.h"

#include <utility>

#include "base/status.h"

namespace slipway::internal {
namespace {

// What stands for a kernel on a device that runs none.
void never_called(const std::byte*, const Block&, const void*) {}

}  // namespace

Module any_kernels(const Device& device, const std::vector<JsonValue>& kernels,
                   const std::vector<Signature>& signatures) {
  std::vector<KernelDef> table;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    table.push_back(
        {kernels[i].member("name").text().c_str(), never_called, signatures[i].data(), signatures[i].size()});
  return device.load_table(table);
}

Kernel find_kernel(const std::vector<Module>& modules, const std::string& name, const Signature& signature) {
  std::string why = "no module was given";
  for (const Module& module : modules) {
    try {
      return module.kernel(name, signature);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      why = error.details()->sentence;
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "the kernel '" + name + "' (" + to_string(signature) +
                                               ") is in none of the " + std::to_string(modules.size()) +
                                               " modules: " + why + "; give a module that has it");
}

}  // namespace slipway::internal
