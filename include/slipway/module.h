// Loaded code and its launchable entries.
//
// Both are shared handles. A module stays loaded while a kernel, a plan or submitted work refers to it; then
// it is unloaded, without anybody waiting. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "slipway/export.h"
#include "slipway/signature.h"

namespace slipway {

namespace internal {
struct ModuleImpl;
struct KernelImpl;
}  // namespace internal

class SLIPWAY_API Kernel {
 public:
  Kernel() noexcept = default;
  explicit Kernel(std::shared_ptr<internal::KernelImpl> impl) noexcept : impl_(std::move(impl)) {}

  const std::string& name() const;
  const Signature& signature() const;
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  const std::shared_ptr<internal::KernelImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::KernelImpl> impl_;
};

class SLIPWAY_API Module {
 public:
  Module() noexcept = default;
  explicit Module(std::shared_ptr<internal::ModuleImpl> impl) noexcept : impl_(std::move(impl)) {}

  // A kernel whose signature the module itself knows (a kernel table; OpenCL programs tell theirs).
  // Throws InvalidArgument when there is no such kernel, naming those there are.
  Kernel kernel(std::string_view name) const;

  // The same with a signature: needed where the module cannot know it (C functions of a shared library),
  // and the way to say what a kernel was specialised for. Its kinds must be those of the code.
  Kernel kernel(std::string_view name, const Signature& signature) const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::ModuleImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::ModuleImpl> impl_;
};

}  // namespace slipway
