// A shared library opened at run time.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace slipway::internal {

class DynamicLibrary {
 public:
  DynamicLibrary() noexcept = default;
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  // Unavailable, with the loader's words, when it cannot be opened.
  static Result<DynamicLibrary> open(const std::string& path);

  // Null when there is no such symbol.
  void* symbol(const char* name) const noexcept;

 private:
  explicit DynamicLibrary(void* handle) noexcept : handle_(handle) {}
  void* handle_ = nullptr;
};

}  // namespace slipway::internal
