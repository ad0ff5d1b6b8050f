#include "drivers/cpu/cpu_driver.h"

#include <unistd.h>

#include <limits>
#include <utility>

#include "base/parker.h"
#include "drivers/cpu/cpu_executor.h"
#include "drivers/cpu/cpu_module.h"
#include "engine/lane_driver.h"
#include "engine/options.h"
#include "engine/table_module.h"

namespace slipway::internal {
namespace {

constexpr std::uint32_t kAlignment = 64;
// Whoever waits for a decode step of 75 us parks in every step with less than that, and a parked thread runs 15-40 us
// after it was woken: with 50, 200 and 1000 us the demo's mode `graph` ran at 0.54x, 0.74x and 0.92x of `direct`.

class CpuDriver final : public LaneDriver<CpuExecutor> {
 public:
  CpuDriver(DeviceInfo info, const EngineOptions& options, DriverEnvironment& environment)
      : LaneDriver(std::move(info), options, environment) {
    executor_.set_engine(engine_);
  }

  Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef> kernels) override {
    return load_kernel_table(kernels);
  }
  Result<std::unique_ptr<DriverModule>> load_library(const std::string& path) override {
    return load_cpu_library(path);
  }
  Result<std::unique_ptr<DriverModule>> load_source(std::string_view, std::string_view) override {
    return Status(ErrorCode::kUnsupported,
                  "the cpu device compiles no source text; compile it to a shared library and use load_library(), or "
                  "compile the kernels in and use load_table()");
  }
};

std::string processor_name() { return std::to_string(available_processors()) + " processors of this machine"; }

Result<std::unique_ptr<Driver>> open_cpu(const Uri& uri, DriverEnvironment& environment) {
  if (Status status = uri.allow_only({"workers", "inline", "spin_us", "affinity", "blocking", "wait_limit_ms"});
      !status.ok()) {
    return status;
  }
  auto is_inline = uri.flag("inline");
  auto workers = uri.number("workers", 1, 1, 256);
  for (const Status& status : {is_inline.status(), workers.status()}) {
    if (!status.ok()) return status;
  }
  if (is_inline.value() && uri.text("workers")) {
    return Status(ErrorCode::kInvalidArgument,
                  "the device URI '" + uri.text() + "' asks for workers and for in-line mode; give one of the two");
  }
  EngineOptions options;
  options.thread_name = "slipway-cpu";
  const unsigned threads = is_inline.value() ? 0 : static_cast<unsigned>(workers.value());
  if (Status status = read_engine_options(uri, threads, options, environment); !status.ok()) return status;

  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  DeviceInfo info;
  info.uri = uri.text();
  info.driver = "cpu";
  info.name = processor_name();
  // The number of blocks then fits 64 bits: 2^31 * 2^16 * 2^16.
  info.max_grid = {kMost, (1U << 16) - 1, (1U << 16) - 1};
  info.max_block = {kMost, kMost, kMost};
  info.max_block_items = kMost;
  info.max_shared_bytes = 64U << 20;
  info.max_argument_bytes = kMaxArgumentBytes;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  info.total_memory_bytes =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
  info.memory_alignment = kAlignment;
  info.workers = options.workers;
  info.host_addressable = true;
  return std::unique_ptr<Driver>(std::make_unique<CpuDriver>(std::move(info), options, environment));
}

Result<std::string> probe_cpu() { return processor_name(); }

}  // namespace

const DriverEntry kCpuDriver{
    "cpu",
    "workers=N        threads that execute streams, 1 to 256 (default 1)\n"
    "inline           no threads: a call runs its stream as far as it can\n"
    "spin_us=N        how long idle workers and waiting callers look around before they sleep (default 1000)\n"
    "affinity=0-1+4   processors that the workers are bound to, in turn (default: not bound)\n"
    "blocking         each submission waits for its work\n"
    "wait_limit_ms=N  how long a call may wait at most (default 60000)",
    open_cpu, probe_cpu};

}  // namespace slipway::internal
