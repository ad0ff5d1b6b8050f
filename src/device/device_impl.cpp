#include "device/device_impl.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/thread_id.h"
#include "device/stream_impl.h"

namespace slipway::internal {
namespace {

std::uint32_t next_device_id() noexcept {
  static std::atomic<std::uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

DeviceImpl::DeviceImpl(std::unique_ptr<DriverEnvironment> environment, std::unique_ptr<Driver> driver)
    : environment_(std::move(environment)),
      driver_(std::move(driver)),
      info_(driver_->info()),
      id_(next_device_id()),
      forks_(fork_count()),
      process_(::getpid()),
      hooks_(std::make_shared<HookChain>([this](bool any) { set_slow_flags(kSlowHooks, any); })) {
  OpenDevices& open = open_devices();
  const std::lock_guard lock(open.mutex);
  open.devices.push_back(this);
}

DeviceImpl::OpenDevices& DeviceImpl::open_devices() {
  static std::atomic<OpenDevices*> known{nullptr};
  OpenDevices* open = known.load(std::memory_order_acquire);
  while (!open || open->forks != fork_count()) {
    auto made = std::make_unique<OpenDevices>();  // a parent's may be locked for ever, and is left behind
    if (known.compare_exchange_strong(open, made.get(), std::memory_order_acq_rel)) return *made.release();
  }
  return *open;
}

DeviceImpl::~DeviceImpl() {
  if (!forked()) {
    OpenDevices& open = open_devices();
    const std::lock_guard lock(open.mutex);
    std::erase(open.devices, this);
  }
  hooks_->close();  // handles may outlive the device
  try {
    close(deadline(-1));
  } catch (const Error&) {
    // There is nobody left to tell.
  }
  if (leaked_) {
    retired_.leak();
    (void)driver_.release();
    (void)environment_.release();
  } else {
    retired_.clear();
  }
}

void DeviceImpl::throw_forked(const char* what) const {
  throw Error(ErrorCode::kFailedPrecondition, std::string(what) + " was asked of the device '" + info_.uri +
                                                  "', which was opened by process " + std::to_string(process_) +
                                                  " before a fork and has no threads in process " +
                                                  std::to_string(::getpid()) +
                                                  "; it must be opened again in the child, and what was made from it "
                                                  "made anew");
}

void DeviceImpl::throw_unusable(const char* what, std::uint32_t generation) const {
  check_process(what);
  if (t_in_callback) {
    throw Error(ErrorCode::kFailedPrecondition,
                std::string(what) +
                    " is not allowed in a kernel or host function, since it could wait for the very "
                    "work that calls it; do it from the thread that submits");
  }
  if (closed_.load(std::memory_order_acquire)) {
    throw Error(ErrorCode::kStaleContext,
                std::string(what) + " was asked of the device '" + info_.uri + "', which is closed; open it again");
  }
  if (generation != 0 && generation != generation_.load(std::memory_order_acquire)) {
    throw Error(ErrorCode::kStaleContext, std::string(what) +
                                              " was asked of something that was made before the device '" + info_.uri +
                                              "' was reset; make it anew");
  }
}

std::int64_t DeviceImpl::deadline(std::int64_t limit_ms) const noexcept {
  const std::int64_t now = now_ns();
  if (limit_ms < 0) return now + environment_->wait_rules.default_limit_ns;
  // Beyond a hundred years the sum would overflow, and nobody would notice the difference.
  constexpr std::int64_t kLongest_ms = std::int64_t{100} * 365 * 24 * 3600 * 1000;
  return now + std::min(limit_ms, kLongest_ms) * 1'000'000;
}

void DeviceImpl::add_stream(const std::shared_ptr<StreamImpl>& stream) {
  {
    const std::lock_guard lock(streams_mutex_);
    streams_.push_back({stream.get(), stream});
  }
  if (environment_->timeline.load(std::memory_order_acquire)) {
    stream->driver_stream().sink().set_slow_flags(kSlowTimeline);
  }
  if (hooks_->entries()) stream->driver_stream().sink().set_slow_flags(kSlowHooks);
  if (environment_->lost.load(std::memory_order_acquire)) stream->driver_stream().sink().set_slow_flags(kSlowLost);
}

void DeviceImpl::set_slow_flags(std::uint32_t bits, bool on) {
  for (const auto& stream : streams()) {
    Sink& sink = stream->driver_stream().sink();
    if (on) sink.set_slow_flags(bits);
    else sink.clear_slow_flags(bits);
  }
}

void DeviceImpl::remove_stream(StreamImpl* stream) {
  const std::lock_guard lock(streams_mutex_);
  std::erase_if(streams_, [&](const Entry& e) { return e.stream == stream; });
  stream->counters().add_to(gone_);
}

std::vector<std::shared_ptr<StreamImpl>> DeviceImpl::streams() {
  std::vector<std::shared_ptr<StreamImpl>> alive;
  const std::lock_guard lock(streams_mutex_);
  for (const Entry& entry : streams_) {
    if (auto stream = entry.handle.lock()) alive.push_back(std::move(stream));
  }
  return alive;
}

void DeviceImpl::await_fast_paths() noexcept {
  OpenDevices& open = open_devices();
  const std::lock_guard devices(open.mutex);
  for (DeviceImpl* device : open.devices) {
    // Who drops a stream takes this lock too: its last launch is behind us, or its entry is here.
    const std::lock_guard lock(device->streams_mutex_);
    for (const Entry& entry : device->streams_) entry.stream->await_fast_paths();
  }
}

Counters DeviceImpl::count() {
  check_process("a look at the counters");
  retired_.collect();
  Counters total;
  {
    const std::lock_guard lock(streams_mutex_);
    total = gone_;
    for (const Entry& entry : streams_) entry.stream->counters().add_to(total);
  }
  const DeviceCounters& c = environment_->counters;
  total.empty_launches = c.empty_launches.load(std::memory_order_relaxed);
  total.modules_loaded = c.modules_loaded.load(std::memory_order_relaxed);
  total.modules_unloaded = c.modules_unloaded.load(std::memory_order_relaxed);
  total.live_memory_bytes = c.live_memory_bytes.load(std::memory_order_relaxed);
  total.staged_bytes = c.staged_bytes.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kReasonCount; ++i) total.reasons[i] = c.reasons[i].load(std::memory_order_relaxed);
  return total;
}

bool DeviceImpl::drain(std::int64_t deadline_ns) {
  // Marks on the driver's streams themselves, since some have no handle any more.
  bool all = true;
  std::optional<BlockingScope> scope;  // from the first wait on
  for (const auto& stream : retired_.streams()) {
    while (stream->completed() < stream->sink().submitted()) {
      if (now_ns() > deadline_ns) {
        all = false;
        break;
      }
      if (!scope) scope.emplace(rules());
      // Bounded by the deadline. Marks cannot be submitted here (the handle's right to submit is not ours).
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return all;
}

void DeviceImpl::synchronize(std::int64_t deadline_ns) {
  check_usable("synchronize");
  const auto alive = streams();
  for (const auto& stream : alive) stream->refuse_captured("a synchronize of its device");
  captures_.check_wait("a synchronize of the device").throw_if_error();
  owed_.check(nullptr, "a synchronize of the device").throw_if_error();
  std::vector<std::uint64_t> marks;
  marks.reserve(alive.size());
  for (const auto& stream : alive) marks.push_back(stream->internal_mark(deadline_ns));
  Status first;
  for (std::size_t i = 0; i < alive.size(); ++i) {
    Status status = alive[i]->driver_stream().wait(marks[i], deadline_ns);
    if (first.ok()) first = std::move(status);
  }
  for (const auto& stream : alive) {
    if (first.ok()) first = stream->take_failure();
  }
  if (!drain(deadline_ns) && first.ok()) {
    first = Status(ErrorCode::kTimeout,
                   "work of a stream without a handle had not passed when the wait's limit ran out; "
                   "wait again with a longer limit");
  }
  Status settled = retired_.settle(rules(), deadline_ns);
  if (first.ok()) first = std::move(settled);
  first.throw_if_error();
}

void DeviceImpl::start_timeline(std::size_t capacity) {
  check_usable("start_timeline");
  const std::lock_guard lock(timeline_mutex_);
  if (environment_->timeline.load(std::memory_order_acquire)) {
    throw Error(ErrorCode::kFailedPrecondition, "the timeline is on already; call stop_timeline() first");
  }
  auto log = std::make_unique<TimelineLog>(capacity);
  const auto alive = streams();
  for (const auto& stream : alive) log->know(&stream->driver_stream().sink(), stream->name(), stream->base());
  logs_.push_back(std::move(log));
  environment_->timeline.store(logs_.back().get(), std::memory_order_release);
  for (const auto& stream : alive) stream->driver_stream().sink().set_slow_flags(kSlowTimeline);
}

std::vector<TimelineEntry> DeviceImpl::stop_timeline(std::uint64_t* dropped) {
  check_usable("stop_timeline");
  const std::lock_guard lock(timeline_mutex_);
  TimelineLog* log = environment_->timeline.exchange(nullptr, std::memory_order_acq_rel);
  if (dropped) *dropped = 0;
  if (!log) return {};
  for (const auto& stream : streams()) stream->driver_stream().sink().clear_slow_flags(kSlowTimeline);
  return log->take(dropped);
}

void DeviceImpl::reset() {
  check_usable("reset");
  captures_.check_wait("a reset of the device").throw_if_error();
  generation_.fetch_add(1, std::memory_order_acq_rel);
  for (const auto& stream : streams()) stream->driver_stream().sink().set_slow_flags(kSlowClosed);
  drain(deadline(-1));
  driver_->reset().throw_if_error();
  environment_->lost.store(false, std::memory_order_release);
  retired_.collect();
}

void DeviceImpl::close(std::int64_t deadline_ns) {
  check_process("close");
  std::unique_lock lock(close_mutex_, std::try_to_lock);
  if (!lock) {
    // Whoever closes it at the moment may have to take back what this caller holds.
    const BlockingScope scope(rules());
    lock.lock();
  }
  if (closed_.exchange(true, std::memory_order_acq_rel)) return;
  for (const auto& stream : streams()) stream->driver_stream().sink().set_slow_flags(kSlowClosed);
  // Work behind a hold or a gate that nobody opens never passes: it is discarded at the deadline.
  const bool drained = drain(deadline_ns);
  {
    const BlockingScope scope(rules());
    constexpr std::int64_t kJoinLimit_ns = 2'000'000'000;
    const bool stopped = driver_->shut_down(std::max(deadline_ns, now_ns() + kJoinLimit_ns));
    if (!stopped) {
      leaked_ = true;
      throw Error(ErrorCode::kTimeout, "the device '" + info_.uri +
                                           "' has a kernel or host function that does not end; its threads and memory "
                                           "were left behind");
    }
  }
  const Status settled = retired_.settle(rules(), deadline_ns);
  if (!drained) {
    throw Error(ErrorCode::kTimeout, "work on the device '" + info_.uri +
                                         "' had not passed when the limit of close ran out; it was discarded");
  }
  settled.throw_if_error();
}

}  // namespace slipway::internal
