#include "drivers/sim/sim_driver.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "drivers/sim/sim_executor.h"
#include "engine/lane_event.h"
#include "engine/options.h"

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

class SimModule final : public DriverModule {
 public:
  explicit SimModule(std::span<const KernelDef> kernels) : kernels_(kernels.begin(), kernels.end()) {}

  Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* given) override {
    const auto row = std::find_if(kernels_.begin(), kernels_.end(), [&](const KernelDef& k) { return k.name == name; });
    if (row == kernels_.end()) {
      return Status(ErrorCode::kInvalidArgument,
                    "there is no kernel '" + name + "' in this table; use one that was put into it");
    }
    Signature signature = given ? *given : Signature(row->parameters, row->parameters + row->parameter_count);
    auto layout = compute_layout(signature, kCpuAbi, kMaxArgumentBytes);
    if (!layout.ok()) return layout.status();
    auto code = std::make_unique<KernelCode>();
    code->name = name;
    code->signature = std::move(signature);
    code->layout = std::move(layout.value());
    code->entry = row->entry;
    return code;
  }

 private:
  std::vector<KernelDef> kernels_;
};

class SimStream final : public LaneStream {
 public:
  SimStream(Engine& engine, Lane* lane, const WaitRules& rules) : LaneStream(engine, lane, rules), driven_(engine) {}
  void kick() override { driven_.kick_stepped(lane()); }

 private:
  Engine& driven_;
};

class SimDriver final : public Driver, public SimControl {
 public:
  SimDriver(DeviceInfo info, const SimOptions& options, EngineOptions engine_options, DriverEnvironment& environment)
      : info_(std::move(info)),
        options_(options),
        random_(options.seed),
        environment_(environment),
        executor_(environment, options.gates.record_first),
        engine_(stepped(std::move(engine_options)), &walk<SimExecutor>, &executor_) {
    executor_.set_engine(engine_);
  }

  const DeviceInfo& info() const override { return info_; }
  const AbiDescriptor& abi() const override { return kCpuAbi; }
  GateTraits gates() const override { return options_.gates; }
  bool reads_values_late() const override { return true; }

  Result<std::shared_ptr<DriverStream>> create_stream(const StreamOptions& options) override {
    // As pools do that begin anew: the same queue once more, whoever has it by now.
    if (options_.most_streams != 0 && pool_.size() == options_.most_streams) {
      return pool_[next_in_pool_++ % pool_.size()];
    }
    Lane* lane = engine_.acquire_lane(options.ring_bytes, options.priority, environment_.wait_rules);
    auto stream = std::make_shared<SimStream>(engine_, lane, environment_.wait_rules);
    if (options_.most_streams != 0) pool_.push_back(stream);
    return std::shared_ptr<DriverStream>(std::move(stream));
  }
  Result<std::shared_ptr<DriverStream>> adopt_stream(void*) override {
    return Status(ErrorCode::kUnsupported, "the simulated device has no native streams to adopt; use create_stream()");
  }
  Result<std::unique_ptr<DriverEvent>> create_event(const EventOptions& options) override {
    return std::unique_ptr<DriverEvent>(std::make_unique<LaneEvent>(options, environment_.wait_rules));
  }
  Result<std::unique_ptr<DriverHold>> create_hold() override {
    return std::unique_ptr<DriverHold>(std::make_unique<LaneHold>());
  }

  Result<DevicePtr> allocate(std::uint64_t bytes) override {
    auto memory = allocate_host(bytes);
    if (!memory.ok()) return memory.status();
    return host_address(memory.value());
  }
  void free(DevicePtr address) override { std::free(reinterpret_cast<void*>(static_cast<std::uint64_t>(address))); }
  Result<void*> allocate_host(std::uint64_t bytes) override {
    constexpr std::uint64_t kMost = std::numeric_limits<std::size_t>::max() / 2;
    void* memory =
        bytes > kMost ? nullptr : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory) return memory;
    return Status(ErrorCode::kOutOfMemory, "the simulated device has no " + std::to_string(bytes) +
                                               " bytes of memory in one piece; free some, or allocate less");
  }
  void free_host(void* memory) override { std::free(memory); }
  Status adopt_memory(DevicePtr, std::uint64_t) override { return {}; }
  void forget_memory(DevicePtr) override {}

  Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef> kernels) override {
    return std::unique_ptr<DriverModule>(std::make_unique<SimModule>(kernels));
  }
  Result<std::unique_ptr<DriverModule>> load_library(const std::string&) override { return only_tables(); }
  Result<std::unique_ptr<DriverModule>> load_source(std::string_view, std::string_view) override {
    return only_tables();
  }
  Status check_launch(const KernelCode&, const LaunchExtent&) override { return {}; }
  Status reset() override { return {}; }
  bool shut_down(std::int64_t deadline_ns) override {
    executor_.observer = nullptr;
    pool_.clear();
    if (!engine_.shut_down(deadline_ns)) return false;
    engine_.for_each_lane([&](Lane& lane) { discard_lane(lane, environment_); });
    return true;
  }
  void* native_handle() override { return nullptr; }

  Engine& engine() override { return engine_; }
  void observe(SimObserver* observer) override {
    executor_.observer = observer;
    if (!observer) run_all();
  }
  void refuse_rewrite(std::uint64_t after) override { executor_.refuse_after = static_cast<std::int64_t>(after); }

 private:
  EngineOptions stepped(EngineOptions options) {
    options.workers = 0;
    options.became_ready = [](void* driver) { static_cast<SimDriver*>(driver)->run_all(); };
    options.context = this;
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
    running_ = true;
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
    running_ = false;
  }

  DeviceInfo info_;
  const SimOptions options_;
  std::uint64_t random_;
  DriverEnvironment& environment_;
  SimExecutor executor_;
  Engine engine_;
  std::vector<std::shared_ptr<DriverStream>> pool_;
  std::uint64_t next_in_pool_ = 0;
  std::vector<Lane*> ready_;
  bool running_ = false;
};

Result<bool> read_choice(const Uri& uri, const char* option, const char* first, const char* second) {
  const std::string text = uri.text(option).value_or(first);
  if (text == first || text == second) return text == second;
  return Status(ErrorCode::kInvalidArgument, "the option '" + std::string(option) + "' of the simulated device is '" +
                                                 text + "'; it takes " + first + " or " + second);
}

Result<std::unique_ptr<Driver>> open_sim(const Uri& uri, DriverEnvironment& environment) {
  if (Status status = uri.allow_only({"seed", "gates", "record_first", "wait", "streams", "blocking", "wait_limit_ms"});
      !status.ok()) {
    return status;
  }
  auto seed = uri.number("seed", 0, 0, std::numeric_limits<std::int64_t>::max());
  auto gates = read_choice(uri, "gates", "counting", "resettable");
  auto record_first = uri.number("record_first", 0, 0, 1);
  auto wait = read_choice(uri, "wait", "behind", "before");
  auto streams = uri.number("streams", 0, 1, 1024);
  for (const Status& status : {seed.status(), gates.status(), record_first.status(), wait.status(), streams.status()}) {
    if (!status.ok()) return status;
  }
  if (!gates.value() && (record_first.value() != 0 || wait.value())) {
    return Status(ErrorCode::kInvalidArgument, "the device URI '" + uri.text() +
                                                   "' says how events are recorded and waited for, and its gates count "
                                                   "steps; give gates=resettable too");
  }
  SimOptions options;
  options.seed = static_cast<std::uint64_t>(seed.value());
  options.gates = {gates.value(), record_first.value() != 0, wait.value()};
  options.most_streams = static_cast<std::uint64_t>(streams.value());
  EngineOptions engine_options;
  engine_options.thread_name = "slipway-sim";
  auto blocking = uri.flag("blocking");
  auto limit = uri.number("wait_limit_ms", 60'000, 1, 86'400'000);
  for (const Status& status : {blocking.status(), limit.status()}) {
    if (!status.ok()) return status;
  }
  engine_options.spin_ns = 0;
  environment.blocking = environment.blocking || blocking.value();
  environment.wait_rules.default_limit_ns = limit.value() * 1'000'000;
  environment.wait_rules.spin_ns = 0;

  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  DeviceInfo info;
  info.uri = uri.text();
  info.driver = "sim";
  info.name = std::string("simulated, ") + (gates.value() ? "resettable" : "counting") + " gates";
  info.max_grid = {kMost, (1U << 16) - 1, (1U << 16) - 1};
  info.max_block = {kMost, kMost, kMost};
  info.max_block_items = kMost;
  info.max_argument_bytes = kMaxArgumentBytes;
  info.memory_alignment = kAlignment;
  info.workers = gates.value() ? 1 : 2;  // branches of a graph run beside each other where gates count
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
