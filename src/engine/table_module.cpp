#include "engine/table_module.h"

#include <string>
#include <utility>
#include <vector>

namespace slipway::internal {
namespace {

Result<std::unique_ptr<KernelCode>> make_code(std::string name, Signature signature) {
  auto layout = compute_layout(signature, kCpuAbi, kMaxArgumentBytes);
  if (!layout.ok()) return layout.status();
  auto code = std::make_unique<KernelCode>();
  code->name = std::move(name);
  code->signature = std::move(signature);
  code->layout = std::move(layout.value());
  return code;
}

class TableModule final : public DriverModule {
 public:
  explicit TableModule(std::span<const KernelDef> kernels) {
    for (const KernelDef& def : kernels) {
      rows_.push_back({def.name, def.entry, Signature(def.parameters, def.parameters + def.parameter_count)});
    }
  }

  Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* given) override {
    std::string names;
    for (const Row& row : rows_) {
      names += (names.empty() ? "" : ", ") + row.name;
      if (row.name != name) continue;
      if (given) {
        if (Status status = check_against(row, *given); !status.ok()) return status;
      }
      auto code = make_code(name, given ? *given : row.signature);
      if (code.ok()) code.value()->entry = row.entry;
      return code;
    }
    return Status(ErrorCode::kInvalidArgument,
                  "there is no kernel '" + name + "' in this table; it has: " + (names.empty() ? "none" : names));
  }

 private:
  struct Row {
    std::string name;
    KernelEntry entry;
    Signature signature;
  };

  // A given signature may say more than the C++ types do (alignment, ranges), and nothing else.
  static Status check_against(const Row& row, const Signature& given) {
    bool same = given.size() == row.signature.size();
    for (std::size_t i = 0; same && i < given.size(); ++i) {
      const Parameter& a = given[i];
      const Parameter& b = row.signature[i];
      same = a.kind == b.kind && a.size_bytes == b.size_bytes &&
             (a.kind != ArgKind::kBytes || a.align_bytes == b.align_bytes) &&
             (b.dtype == DType::kUnknown || a.dtype == DType::kUnknown || a.dtype == b.dtype);
    }
    if (same) return {};
    return {ErrorCode::kInvalidArgument, "kernel '" + row.name + "' was looked up as (" + to_string(given) +
                                             "), but its function takes (" + to_string(row.signature) +
                                             "); kinds, sizes and element types must agree"};
  }

  std::vector<Row> rows_;
};

}  // namespace

Result<std::unique_ptr<DriverModule>> load_kernel_table(std::span<const KernelDef> kernels) {
  return std::unique_ptr<DriverModule>(std::make_unique<TableModule>(kernels));
}

}  // namespace slipway::internal
