#include "slipway/module.h"

#include <string>

#include "device/handles.h"

namespace slipway {
namespace internal {

ModuleImpl::~ModuleImpl() {
  // Unloading takes locks of the device. In the child of a fork, what is retired is left behind.
  if (device && device->forked()) device->retired().retire([m = std::move(module)]() mutable { m.reset(); });
}

KernelImpl::~KernelImpl() {
  // Launches submitted so far read the code, and run what its module has loaded.
  device->retired().retire([c = std::move(code)]() mutable { c.reset(); });
}

namespace {

Kernel make_kernel(const Module& module, std::string_view name, const Signature* signature) {
  ModuleImpl& impl = deref(module, "the module");
  impl.device->check_usable("looking up a kernel", impl.generation);
  auto kernel = std::make_shared<KernelImpl>();
  kernel->device = impl.device;
  kernel->generation = impl.generation;
  kernel->code = impl.module->kernel(std::string(name), signature).take();
  kernel->code->module = impl.module;
  return Kernel(std::move(kernel));
}

}  // namespace
}  // namespace internal

const std::string& Kernel::name() const { return internal::deref(*this, "the kernel").code->name; }
const Signature& Kernel::signature() const { return internal::deref(*this, "the kernel").code->signature; }

Kernel Module::kernel(std::string_view name) const { return internal::make_kernel(*this, name, nullptr); }
Kernel Module::kernel(std::string_view name, const Signature& signature) const {
  return internal::make_kernel(*this, name, &signature);
}

}  // namespace slipway
