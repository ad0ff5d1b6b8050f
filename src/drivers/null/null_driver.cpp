#include "drivers/null/null_driver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "drivers/null/null_executor.h"
#include "engine/lane_driver.h"
#include "engine/options.h"

namespace slipway::internal {
namespace {

// What `abi` may be. Without it, arguments lie as on cpu.
constexpr const AbiDescriptor* kAbis[] = {&kPlainAbi, &kAscendAbi, &kAscendSimtAbi, &kCudaAbi};
// Recognisable in what was stored, and below all memory.
constexpr std::uint64_t kControlAddress = std::uint64_t{1} << 43;
constexpr std::uint32_t kAlignment = 256;
constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 44;  // no host pointer: touching one would be a bug

// Takes every name: of a table with the table's signatures, otherwise with the one that is given.
class NullModule final : public DriverModule {
 public:
  NullModule(std::span<const KernelDef> kernels, const AbiDescriptor& abi, std::uint64_t most_blocks)
      : abi_(abi), most_blocks_(most_blocks) {
    for (const KernelDef& def : kernels) {
      rows_.emplace_back(def.name, Signature(def.parameters, def.parameters + def.parameter_count));
    }
  }

  Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* given) override {
    const Signature* signature = given;
    for (const auto& [row_name, row_signature] : rows_) {
      if (!signature && row_name == name) signature = &row_signature;
    }
    if (!signature) {
      return Status(ErrorCode::kInvalidArgument, "the null device was asked for the kernel '" + name +
                                                     "', which is in no table; pass a signature with the name");
    }
    auto layout = compute_layout(*signature, abi_, kMaxArgumentBytes, kControlAddress);
    if (!layout.ok()) return layout.status();
    auto code = std::make_unique<KernelCode>();
    code->name = name;
    code->signature = *signature;
    code->layout = std::move(layout.value());
    code->most_blocks = most_blocks_;
    return code;
  }

 private:
  const AbiDescriptor& abi_;
  const std::uint64_t most_blocks_;
  std::vector<std::pair<std::string, Signature>> rows_;
};

class NullDriver final : public LaneDriver<NullExecutor> {
 public:
  NullDriver(DeviceInfo info, const AbiDescriptor& abi, std::uint64_t most_blocks, const NullOptions& null_options,
             const EngineOptions& options, DriverEnvironment& environment)
      : LaneDriver(std::move(info), options, environment, null_options), abi_(abi), most_blocks_(most_blocks) {}

  const AbiDescriptor& abi() const override { return abi_; }

  Result<DevicePtr> allocate(std::uint64_t bytes) override {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
    if (bytes > kMost) {
      return Status(ErrorCode::kOutOfMemory, "the null device was asked for " + std::to_string(bytes) +
                                                 " bytes; it pretends to have " + std::to_string(kMost));
    }
    // A gap behind each block, so that no two touch.
    const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
    return DevicePtr{next_address_.fetch_add(rounded, std::memory_order_relaxed)};
  }
  void free(DevicePtr) override {}

  Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef> kernels) override {
    return std::unique_ptr<DriverModule>(std::make_unique<NullModule>(kernels, abi_, most_blocks_));
  }
  Result<std::unique_ptr<DriverModule>> load_library(const std::string&) override { return load_table({}); }
  Result<std::unique_ptr<DriverModule>> load_source(std::string_view, std::string_view) override {
    return load_table({});
  }

  Status reset() override {
    executor_.reset();
    return {};
  }
  std::vector<testing::StoredWork> take_stored() override { return executor_.take_stored(); }

 private:
  const AbiDescriptor& abi_;
  const std::uint64_t most_blocks_;
  std::atomic<std::uint64_t> next_address_{kFirstAddress};
};

Result<const AbiDescriptor*> read_abi(const Uri& uri) {
  const auto wanted = uri.text("abi");
  if (!wanted) return &kCpuAbi;
  std::string names;
  for (const AbiDescriptor* abi : kAbis) {
    if (*wanted == abi->name) return abi;
    names += (names.empty() ? "" : ", ") + std::string(abi->name);
  }
  return Status(ErrorCode::kInvalidArgument, "the null device was asked for the ABI '" + std::string(*wanted) +
                                                 "', and it knows " + names + "; leave it out for that of cpu");
}

Result<std::unique_ptr<Driver>> open_null(const Uri& uri, DriverEnvironment& environment) {
  if (Status status = uri.allow_only({"store", "abi", "block_cap", "busy_us", "workers", "fault_at", "spin_us",
                                      "affinity", "blocking", "wait_limit_ms"});
      !status.ok()) {
    return status;
  }
  auto store = uri.flag("store");
  auto busy = uri.number("busy_us", 0, 0, 1'000'000);
  auto workers = uri.number("workers", uri.text("busy_us") ? 1 : 0, 0, 256);
  auto fault = uri.number("fault_at", 0, 1, std::numeric_limits<std::int64_t>::max());
  auto block_cap = uri.number("block_cap", 0, 1, 65535);
  auto abi = read_abi(uri);
  for (const Status& status :
       {store.status(), busy.status(), workers.status(), fault.status(), block_cap.status(), abi.status()}) {
    if (!status.ok()) return status;
  }
  NullOptions null_options;
  null_options.store = store.value();
  null_options.busy_ns = busy.value() * 1000;
  null_options.fault_at = static_cast<std::uint64_t>(fault.value());
  EngineOptions options;
  options.thread_name = "slipway-null";
  if (Status status = read_engine_options(uri, static_cast<unsigned>(workers.value()), options, environment);
      !status.ok()) {
    return status;
  }

  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  DeviceInfo info;
  info.uri = uri.text();
  info.driver = "null";
  info.name = busy.value() > 0 ? "timed device, " + std::to_string(busy.value()) + " us per kernel" : "runs nothing";
  // The limits of common hardware, so that plans made here hold elsewhere.
  info.max_grid = {kMost, 65535, 65535};
  if (abi.value()->grid_words) {
    // One number of blocks is what such a device is given, so the dimensions are free.
    info.max_grid = {kMost, kMost, kMost};
    info.max_grid_blocks = 65535;
  }
  info.max_block = {1024, 1024, 64};
  info.max_block_items = 1024;
  info.max_shared_bytes = 48U << 10;
  info.max_argument_bytes = std::min(kMaxArgumentBytes, abi.value()->limit_bytes);
  info.memory_alignment = kAlignment;
  info.workers = options.workers;
  info.runs_kernels = false;
  return std::unique_ptr<Driver>(std::make_unique<NullDriver>(std::move(info), *abi.value(),
                                                              static_cast<std::uint64_t>(block_cap.value()),
                                                              null_options, options, environment));
}

Result<std::string> probe_null() { return std::string("always there; runs nothing"); }

}  // namespace

const DriverEntry kNullDriver{"null",
                              "store            keeps what it was given, for tests\n"
                              "abi=NAME         packs as plain, ascend, ascend-simt or cuda (default: as cpu)\n"
                              "block_cap=N      at most N blocks are started, whatever the grid\n"
                              "busy_us=T        a timed device: a worker is busy T us per kernel\n"
                              "workers=N        threads, 0 to 256 (default 0: in-line; 1 with busy_us)\n"
                              "fault_at=N       the device is lost at launch N\n"
                              "spin_us=N        how long idle workers look around before they sleep (default 1000)\n"
                              "affinity=0-1+4   processors that the workers are bound to (default: not bound)\n"
                              "blocking         each submission waits for its work\n"
                              "wait_limit_ms=N  how long a call may wait at most (default 60000)",
                              open_null, probe_null};

}  // namespace slipway::internal
