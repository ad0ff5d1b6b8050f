#include "drivers/sim/sim_driver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "drivers/sim/sim_executor.h"
#include "engine/lane_driver.h"
#include "engine/options.h"
#include "engine/table_module.h"

namespace slipway::internal {

void SimExecutor::launch(const LaunchRecord& launch, Lane&) {
  const KernelCode& code = *launch.code;
  Block block;
  if (const LaunchExtent* extent = extent_of(launch)) {
    block.grid = extent->grid;
    block.size = extent->block;
  }
  for (block.index.z = 0; block.index.z < block.grid.z; ++block.index.z) {
    for (block.index.y = 0; block.index.y < block.grid.y; ++block.index.y) {
      for (block.index.x = 0; block.index.x < block.grid.x; ++block.index.x) {
        code.entry(arguments_of(launch), block, code.context);
      }
    }
  }
}

void SimExecutor::fill(const FillRecord& record) {
  auto* to = reinterpret_cast<std::byte*>(record.to);
  const std::uint32_t bytes = record.header.flags;
  for (std::uint64_t i = 0; i < record.count; ++i)
    std::memcpy(to + i * bytes, &record.pattern, bytes);  // little-endian
}

bool SimExecutor::waits_for_nothing(ReplayProgram& program, std::uint64_t step, std::uint32_t gate) {
  if (!record_first_ || program.event(gate).is_set()) return false;
  bool submitted = false;
  engine_->for_each_lane([&](const Lane& lane) {
    std::uint64_t at = lane.read_position.load(std::memory_order_relaxed);
    for (const std::uint64_t end = lane.published(); at != end;) {
      const RecordHeader& header = lane.at(at);
      if (header.kind == RecordKind::kUpdate) {
        const auto& update = record_cast<UpdateRecord>(header);
        submitted = submitted || (update.program == &program && update.step == step);
      }
      at += header.size_bytes;
    }
  });
  return !submitted && program.cancellation_of(step).ok();
}

Status SimExecutor::unrecorded(const ReplayProgram& program, std::uint64_t step, std::uint32_t gate) const {
  return {ErrorCode::kInternal, "step " + std::to_string(step) + " of graph '" + program.name() + "' waited at gate " +
                                    std::to_string(gate) +
                                    " for an event that nobody had recorded, where this device hangs; an update has to "
                                    "come before its replay"};
}

Status SimExecutor::rewrites(const ReplayProgram& program, std::uint64_t step, std::uint32_t gate) {
  if (refuse_after < 0 || refuse_after-- > 0) return {};
  return {ErrorCode::kInvalidArgument, "the device refused to rewrite what gate " + std::to_string(gate) +
                                           " of graph '" + program.name() + "' stands for, in the update of step " +
                                           std::to_string(step)};
}

namespace {

constexpr std::uint32_t kAlignment = 64;

struct SimOptions {
  std::uint64_t seed = 0;
  GateTraits gates;
  std::uint64_t most_streams = 0;  // a pool that begins anew; 0: each stream is another
};

class SimStream final : public LaneStream {
 public:
  SimStream(Engine& engine, Lane* lane, const WaitRules& rules) : LaneStream(engine, lane, rules), driven_(engine) {}
  void kick() override { driven_.kick_stepped(lane()); }

 private:
  Engine& driven_;
};

class SimDriver final : public LaneDriver<SimExecutor>, public SimControl {
 public:
  SimDriver(DeviceInfo info, const SimOptions& options, EngineOptions engine_options, DriverEnvironment& environment)
      : LaneDriver(std::move(info), stepped(std::move(engine_options), this), environment, options.gates.record_first),
        options_(options),
        random_(options.seed) {
    executor_.set_engine(engine_);
  }

  GateTraits gates() const override { return options_.gates; }

  Result<std::shared_ptr<DriverStream>> create_stream(const StreamOptions& options) override {
    // As pools do that begin anew: the same queue once more, whoever has it by now.
    if (options_.most_streams != 0 && pool_.size() == options_.most_streams) {
      return pool_[next_in_pool_++ % pool_.size()];
    }
    auto stream = std::make_shared<SimStream>(engine_, new_lane(options), environment_.wait_rules);
    if (options_.most_streams != 0) pool_.push_back(stream);
    return std::shared_ptr<DriverStream>(std::move(stream));
  }

  Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef> kernels) override {
    return load_kernel_table(kernels);
  }
  Result<std::unique_ptr<DriverModule>> load_library(const std::string&) override { return only_tables(); }
  Result<std::unique_ptr<DriverModule>> load_source(std::string_view, std::string_view) override {
    return only_tables();
  }
  bool shut_down(std::int64_t deadline_ns) override {
    executor_.observer = nullptr;
    pool_.clear();
    return LaneDriver::shut_down(deadline_ns);
  }

  Engine& engine() override { return engine_; }
  void observe(SimObserver* observer) override {
    executor_.observer = observer;
    if (!observer) run_all();
  }
  void refuse_rewrite(std::uint64_t after) override { executor_.refuse_after = static_cast<std::int64_t>(after); }

 private:
  static EngineOptions stepped(EngineOptions options, SimDriver* driver) {
    options.workers = 0;
    options.spin_ns = 0;
    options.became_ready = [](void* sim) { static_cast<SimDriver*>(sim)->run_all(); };
    options.context = driver;
    return options;
  }
  static Result<std::unique_ptr<DriverModule>> only_tables() {
    return Status(
        ErrorCode::kUnsupported,
        "the simulated device runs kernels that were compiled in; put them into a table and use load_table()");
  }
  std::uint64_t draw() noexcept {  // splitmix64
    std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  void run_all() {
    if (executor_.observer || running_) return;
    struct Running {  // also where something is thrown
      explicit Running(bool& flag) noexcept : flag_(flag) { flag_ = true; }
      ~Running() { flag_ = false; }
      bool& flag_;
    } const running(running_);
    for (;;) {
      ready_.clear();
      engine_.list_ready(ready_);
      const bool host = engine_.host_thread().has_posted();
      const std::uint64_t count = ready_.size() + (host ? 1 : 0);
      if (count == 0) break;
      const std::uint64_t chosen = draw() % count;
      if (chosen == ready_.size()) engine_.host_thread().run_next();
      else engine_.run_turn(*ready_[chosen]);
    }
  }

  const SimOptions options_;
  std::uint64_t random_;
  std::vector<std::shared_ptr<DriverStream>> pool_;
  std::uint64_t next_in_pool_ = 0;
  std::vector<Lane*> ready_;
  bool running_ = false;
};

Result<std::unique_ptr<Driver>> open_sim(const Uri& uri, DriverEnvironment& environment) {
  if (Status status = uri.allow_only({"seed", "gates", "record_first", "wait", "streams", "blocking", "wait_limit_ms"});
      !status.ok()) {
    return status;
  }
  auto seed = uri.number("seed", 0, 0, std::numeric_limits<std::int64_t>::max());
  auto gates = uri.choice("gates", {"counting", "resettable"});
  auto record_first = uri.number("record_first", 0, 0, 1);
  auto wait = uri.choice("wait", {"behind", "before"});
  auto streams = uri.number("streams", 0, 1, 1024);
  for (const Status& status : {seed.status(), gates.status(), record_first.status(), wait.status(), streams.status()}) {
    if (!status.ok()) return status;
  }
  const bool is_resettable = gates.value() == 1;
  if (!is_resettable && (record_first.value() != 0 || wait.value() != 0)) {
    return Status(ErrorCode::kInvalidArgument, "the device URI '" + uri.text() +
                                                   "' says how events are recorded and waited for, and its gates count "
                                                   "steps; give gates=resettable too");
  }
  SimOptions options;
  options.seed = static_cast<std::uint64_t>(seed.value());
  options.gates = {is_resettable, record_first.value() != 0, wait.value() == 1};
  options.most_streams = static_cast<std::uint64_t>(streams.value());
  EngineOptions engine_options;
  engine_options.thread_name = "slipway-sim";
  if (Status status = read_engine_options(uri, 0, engine_options, environment); !status.ok()) return status;

  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  DeviceInfo info;
  info.uri = uri.text();
  info.driver = "sim";
  info.name = std::string("simulated, ") + (is_resettable ? "resettable" : "counting") + " gates";
  info.max_grid = {kMost, (1U << 16) - 1, (1U << 16) - 1};
  info.max_block = {kMost, kMost, kMost};
  info.max_block_items = kMost;
  info.max_argument_bytes = kMaxArgumentBytes;
  info.memory_alignment = kAlignment;
  info.workers = is_resettable ? 1 : 2;  // branches of a graph run beside each other where gates count
  info.host_addressable = true;
  return std::unique_ptr<Driver>(
      std::make_unique<SimDriver>(std::move(info), options, std::move(engine_options), environment));
}

Result<std::string> probe_sim() { return std::string("always there; interleaves streams on one thread"); }

}  // namespace

SimControl* sim_control(Driver& driver) { return dynamic_cast<SimDriver*>(&driver); }

const DriverEntry kSimDriver{
    "sim",
    "seed=N                     the order in which streams are interleaved (default 0)\n"
    "gates=counting|resettable  how graphs wait for values (default counting)\n"
    "record_first=0|1           resettable: an event must be set before it is waited for (default 0)\n"
    "wait=behind|before         resettable: where updates wait for replays (default behind)\n"
    "streams=N                  streams share N queues, in turn (default: one each)\n"
    "blocking                   each submission waits for its work\n"
    "wait_limit_ms=N            how long a call may wait at most (default 60000)",
    open_sim, probe_sim};

}  // namespace slipway::internal
