#include "base/dynamic_library.h"

#include <dlfcn.h>

namespace slipway::internal {

DynamicLibrary::~DynamicLibrary() {
  if (handle_) ::dlclose(handle_);
}

Result<DynamicLibrary> DynamicLibrary::open(const std::string& path) {
  if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return DynamicLibrary(handle);
  const char* why = ::dlerror();
  return Status(ErrorCode::kUnavailable, "the shared library '" + path +
                                             "' cannot be opened: " + (why ? why : "the loader gave no reason") +
                                             "; check the path and what it links to");
}

void* DynamicLibrary::symbol(const char* name) const noexcept { return handle_ ? ::dlsym(handle_, name) : nullptr; }

}  // namespace slipway::internal
