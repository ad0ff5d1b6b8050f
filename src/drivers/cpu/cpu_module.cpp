#include "drivers/cpu/cpu_module.h"

#include <utility>

#include "base/dynamic_library.h"

namespace slipway::internal {
namespace {

struct LibraryCode final : KernelCode {
  std::shared_ptr<const void> call_context;
};

class LibraryModule final : public DriverModule {
 public:
  explicit LibraryModule(DynamicLibrary library, std::string path)
      : library_(std::move(library)), path_(std::move(path)) {}

  Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* given) override {
    if (!given) {
      return Status(ErrorCode::kInvalidArgument, "the C function '" + name + "' of '" + path_ +
                                                     "' was looked up without a signature, and a shared library tells "
                                                     "none; pass one, as parse_signature(\"tensor, i32\")");
    }
    void* function = library_.symbol(name.c_str());
    if (!function) {
      return Status(ErrorCode::kInvalidArgument, "the shared library '" + path_ + "' exports no function '" + name +
                                                     "'; check the name, and that it is declared extern \"C\"");
    }
    auto layout = compute_layout(*given, kCpuAbi, kMaxArgumentBytes);
    if (!layout.ok()) return layout.status();
    auto call = call_of_c_function(function, name, *given, layout.value());
    if (!call.ok()) return call.status();
    auto code = std::make_unique<LibraryCode>();
    code->name = name;
    code->signature = *given;
    code->layout = std::move(layout.value());
    code->entry = call.value().entry;
    code->call_context = std::move(call.value().context);
    code->context = code->call_context.get();
    return std::unique_ptr<KernelCode>(std::move(code));
  }

 private:
  DynamicLibrary library_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<DriverModule>> load_cpu_library(const std::string& path) {
  auto library = DynamicLibrary::open(path);
  if (!library.ok()) return library.status();
  return std::unique_ptr<DriverModule>(std::make_unique<LibraryModule>(std::move(library.value()), path));
}

}  // namespace slipway::internal
