// An executor that calls what launches point to, and lanes to submit to it without the front door.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "device/driver.h"
#include "engine/engine.h"
#include "engine/walker.h"

namespace slipway::internal {

inline constexpr std::int64_t kMillisecond = 1'000'000;
inline constexpr std::int64_t kFarAway = 30'000 * kMillisecond;
inline constexpr std::uint32_t kRingBytes = 4096;

// Launches of TestLane carry a pointer to one of these.
struct Work {
  std::function<void(Lane&)> run;
};

class TestExecutor {
 public:
  DriverEnvironment& environment() noexcept { return environment_; }
  void launch(const LaunchRecord& launch, Lane& lane) {
    Work* work = nullptr;
    std::memcpy(&work, arguments_of(launch), sizeof work);
    work->run(lane);
  }
  void copy(const CopyRecord&, const void*) {}
  void fill(const FillRecord&) {}
  void event(const EventRecord&, RecordKind) {}
  void host_function(const HostFunctionRecord&) {}

 private:
  DriverEnvironment environment_;
};

// What the front door does for one stream, without its checks.
class TestLane {
 public:
  TestLane(Engine& engine, const WaitRules& rules, int priority = 0)
      : engine_(engine), lane_(engine.acquire_lane(kRingBytes, priority, rules)) {}

  Lane& lane() { return *lane_; }

  void launch(Work& work) {
    Work* address = &work;
    submit(sizeof(LaunchRecord) + sizeof address, [&](std::byte* place, std::uint32_t size) {
      auto* record = new (place) LaunchRecord{{size, RecordKind::kLaunch, 0, sizeof(LaunchRecord)}, &work_code()};
      std::memcpy(reinterpret_cast<std::byte*>(record) + sizeof(LaunchRecord), &address, sizeof address);
    });
  }
  void host(std::function<void()> function, std::string name = "function") {
    submit(sizeof(HostFunctionRecord), [&](std::byte* place, std::uint32_t size) {
      new (place) HostFunctionRecord{{size, RecordKind::kHostFunction, 0, 0},
                                     new HostFunction{std::move(function), std::move(name)}};
    });
  }
  std::uint64_t mark() {
    submit(sizeof(EventRecord), [&](std::byte* place, std::uint32_t size) {
      new (place) EventRecord{{size, RecordKind::kEventMark, 0, 0}, nullptr, nullptr, 0};
    });
    return lane_->submitted();
  }
  void wait_for(Progress& source, std::uint64_t sequence) {
    submit(sizeof(EventRecord), [&](std::byte* place, std::uint32_t size) {
      new (place) EventRecord{{size, RecordKind::kEventWait, 0, 0}, nullptr, &source, sequence};
    });
  }
  bool synchronize(std::int64_t limit_ns = kFarAway) { return lane_->progress().wait(mark(), 0, now_ns() + limit_ns); }

 private:
  template <class Write>
  void submit(std::size_t bytes, const Write& write) {
    const std::uint32_t size = round_up_record(bytes);
    Status why;
    std::byte* const place = lane_->reserve(size, why);
    ASSERT_NE(place, nullptr);
    write(place, size);
    if (lane_->commit(size)) engine_.kick(*lane_);
  }

  static KernelCode& work_code() {
    struct WorkCode : KernelCode {
      WorkCode() { name = "work"; }
    };
    static WorkCode code;
    return code;
  }

  Engine& engine_;
  Lane* lane_;
};

}  // namespace slipway::internal
