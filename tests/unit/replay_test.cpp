// Replays by themselves: gates that count, values in slots, and what goes wrong when a gate is opened too early.
#include <atomic>
#include <random>
#include <thread>

#include "engine/replay_program.h"
#include "support/counted_new.h"
#include "unit/engine_fixture.h"

namespace slipway::internal {
namespace {

// What the tape's one launch points to; the value behind the pointer is patched.
struct Seen {
  std::vector<std::int64_t> values;
};
struct Arguments {
  Seen* seen;
  std::int64_t value;
};

class ReplayExecutor {
 public:
  DriverEnvironment& environment() noexcept { return environment_; }
  void launch(const LaunchRecord& launch, Lane&) {
    Arguments arguments;
    std::memcpy(&arguments, arguments_of(launch), sizeof arguments);
    arguments.seen->values.push_back(arguments.value);
  }
  void copy(const CopyRecord&, const void*) {}
  void fill(const FillRecord&) {}
  void event(const EventRecord&, RecordKind) {}
  void host_function(const HostFunctionRecord&) {}

 private:
  DriverEnvironment environment_;
};

class Replays : public ::testing::TestWithParam<bool> {  // whether each slot has a tape of its own
 protected:
  static constexpr std::uint32_t kDepth = 3;

  Replays()
      : engine_(EngineOptions{}, &walk<ReplayExecutor>, &executor_), lane_(engine_.acquire_lane(64 << 10, 0, rules_)) {
    code_.name = "see";
    TapeLayout tape;
    const GroupRecord group{{sizeof(GroupRecord), RecordKind::kGroup, 0, 0}, 0, 0};
    const LaunchRecord launch{{sizeof(LaunchRecord) + sizeof(Arguments), RecordKind::kLaunch, 0, sizeof(LaunchRecord)},
                              &code_};
    const Arguments arguments{&seen_, -1};
    append(tape.records, group);
    append(tape.records, launch);
    append(tape.records, arguments);
    tape.groups.push_back({"values", "see", 0, 0, 1});
    tape.patches.push_back({0, sizeof group + sizeof launch + offsetof(Arguments, value), sizeof arguments.value});
    ReplayLayout layout;
    layout.name = "test";
    layout.gate_count = 1;
    layout.block_bytes = 16;
    layout.depth = kDepth;
    layout.own_tapes = GetParam();
    program_ = std::make_unique<ReplayProgram>(std::span(&tape, 1), layout);
  }
  ~Replays() override { EXPECT_TRUE(engine_.shut_down(now_ns() + kFarAway)); }

  template <class T>
  static void append(std::vector<std::byte>& bytes, const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  }

  std::uint64_t submit() {
    const std::uint64_t step = program_->begin_step().value();
    submit(step);
    return step;
  }
  void submit(std::uint64_t step) {
    const ReplayRecord record{{sizeof(ReplayRecord), RecordKind::kReplay, 0, 0}, program_.get(), step, 0};
    Status why;
    std::byte* place = lane_->reserve(sizeof record, why);
    EXPECT_NE(place, nullptr);
    std::memcpy(place, &record, sizeof record);
    if (lane_->commit(sizeof record)) engine_.kick(*lane_);
  }
  void write(std::uint64_t step, std::int64_t value) { std::memcpy(program_->block(step), &value, sizeof value); }
  void open(std::uint64_t step) {
    Freed freed;
    program_->open_gate(0, step, freed);
    resume_all(freed);
  }
  bool passes(std::uint64_t step) { return program_->done().wait(step, 0, now_ns() + kFarAway); }

  WaitRules rules_;
  ReplayExecutor executor_;
  Engine engine_;
  Lane* lane_;
  KernelCode code_;
  Seen seen_;
  std::unique_ptr<ReplayProgram> program_;
};

TEST_P(Replays, AStepRunsOnceItsGateIsOpenAndSeesItsValue) {
  for (std::int64_t i = 1; i <= 100; ++i) {
    const std::uint64_t step = submit();
    EXPECT_FALSE(program_->done().wait(step, 0, now_ns() + (i < 5 ? kMillisecond : 0)));
    write(step, i);
    open(step);
    ASSERT_TRUE(passes(step));
    ASSERT_EQ(seen_.values.back(), i);
  }
  EXPECT_EQ(seen_.values.size(), 100U);
}

// The mutant of all others: opening before writing. What a gate keeps out is there at once.
TEST_P(Replays, WithoutTheGateTheValueIsStale) {
  const std::uint64_t first = submit();
  write(first, 1);
  open(first);
  ASSERT_TRUE(passes(first));
  const std::uint64_t second = submit();
  open(second);  // taken away: it no longer waits for the value
  ASSERT_TRUE(passes(second));
  write(second, 2);
  EXPECT_NE(seen_.values.back(), 2);
}

TEST_P(Replays, GatesOpenOnlyOverContiguousSteps) {
  const std::uint64_t first = submit(), second = submit(), third = submit();
  write(third, 3);
  open(third);
  write(second, 2);
  open(second);
  EXPECT_FALSE(program_->done().wait(first, 0, now_ns() + kMillisecond));
  EXPECT_TRUE(seen_.values.empty());
  write(first, 1);
  open(first);
  ASSERT_TRUE(passes(third));
  EXPECT_EQ(seen_.values, (std::vector<std::int64_t>{1, 2, 3}));
}

// Whoever gives a step up has perhaps just been refused memory.
TEST_P(Replays, GivingStepsUpNeedsNoMemory) {
  test::AllocationFaults& faults = test::t_allocations;
  std::uint64_t last = 0;
  for (int refused = 0; last < 300;) {
    faults = {.armed = true, .fired = false, .left = 1, .seen = 0};
    try {
      last = program_->begin_step().value();
    } catch (const std::bad_alloc&) {
      faults.armed = false;
      EXPECT_EQ(program_->begun(), last) << "none was begun";
      EXPECT_LT(++refused, 8) << "room is made for many at once";
      last = program_->begin_step().value();
    }
    faults.armed = false;
  }
  Freed freed;
  faults = {.armed = true, .fired = false, .left = 0, .seen = 0};
  for (std::uint64_t step = last; step > 0; --step) program_->abandon(step, freed);
  faults.armed = false;
  EXPECT_EQ(faults.seen, 0U);
  EXPECT_EQ(program_->done().completed(), last);
  EXPECT_EQ(program_->gate(0).completed(), last);
}

TEST_P(Replays, AGateMayOpenBeforeItsStepIsSubmitted) {
  const auto begin_open = [&](std::int64_t value) {
    const std::uint64_t step = program_->begin_step().value();
    write(step, value);
    Freed freed;
    program_->open_gate_unseen(0, step, freed);
    EXPECT_TRUE(freed.empty());
    submit(step);
    return step;
  };
  for (std::int64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(i <= kDepth || passes(static_cast<std::uint64_t>(i) - kDepth));
    (void)begin_open(i);
  }
  ASSERT_TRUE(passes(20));
  // Behind one that is not published yet it opens nothing, as any other.
  const std::uint64_t older = submit(), newer = begin_open(22);
  EXPECT_FALSE(program_->done().wait(older, 0, now_ns() + kMillisecond));
  EXPECT_EQ(program_->gate(0).completed(), 20U);
  write(older, 21);
  open(older);
  ASSERT_TRUE(passes(newer));
  (void)begin_open(23);
  ASSERT_TRUE(passes(23));
  ASSERT_EQ(seen_.values.size(), 23U);
  for (std::int64_t i = 1; i <= 23; ++i) EXPECT_EQ(seen_.values[static_cast<std::size_t>(i) - 1], i);
}

TEST_P(Replays, ManyStepsWithThePublisherAtRandomTimes) {
  constexpr std::uint64_t kSteps = 3000;
  std::atomic<std::uint64_t> submitted{0};
  std::thread publisher([&] {
    std::mt19937 random(3);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      while (submitted.load() < step) std::this_thread::yield();
      if (step > kDepth && !passes(step - kDepth)) return;  // the end then shows it
      for (auto spin = random() % 64 == 0 ? random() % 5000 : 0; spin > 0; --spin) cpu_relax();
      write(step, static_cast<std::int64_t>(7 * step));
      open(step);
    }
  });
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    (void)submit();
    submitted.store(step);
  }
  publisher.join();
  ASSERT_TRUE(passes(kSteps));
  ASSERT_EQ(seen_.values.size(), kSteps);
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    ASSERT_EQ(seen_.values[step - 1], static_cast<std::int64_t>(7 * step));
  }
}

TEST_P(Replays, CancelledStepsAreSkippedUntilRecover) {
  const std::uint64_t first = submit(), second = submit();
  Freed freed;
  program_->cancel(first, Status(ErrorCode::kCancelled, "not now"), freed);
  resume_all(freed);
  ASSERT_TRUE(passes(second));
  EXPECT_TRUE(seen_.values.empty());
  EXPECT_EQ(program_->begin_step().status().code(), ErrorCode::kCancelled);
  lane_->recover();
  ASSERT_TRUE(program_->recover().ok());
  const std::uint64_t third = submit();
  write(third, 3);
  open(third);
  ASSERT_TRUE(passes(third));
  EXPECT_EQ(seen_.values, std::vector<std::int64_t>{3});
}

INSTANTIATE_TEST_SUITE_P(Tapes, Replays, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "own" : "shared"; });

}  // namespace
}  // namespace slipway::internal
