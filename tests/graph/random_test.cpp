// Random numbers: Philox4x32-10 itself, and that replays draw what eager calls would.
#include <future>
#include <mutex>
#include <set>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

// Known answers that the authors of Philox publish with their library.
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  static_assert(philox4x32({}, {}) == RandomWords{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  static_assert(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
                RandomWords{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  static_assert(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
                RandomWords{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
  EXPECT_EQ(random_words(0, 0), philox4x32({}, {}));
  EXPECT_EQ(random_words(0x299F31D0'A4093822, 0x85A308D3'243F6A88),
            philox4x32({0x243F6A88, 0x85A308D3, 0, 0}, {0xA4093822, 0x299F31D0}));
}

TEST(Philox, UniformFloatsAreBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0F);
  EXPECT_LT(uniform_float(0xFFFFFFFF), 1.0F);
  double sum = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) sum += uniform_float(random_words(7, i)[0]);
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

// Appends what it draws: the first word of `count` positions.
void draw(std::uint32_t* list, std::int32_t count, std::uint64_t seed, std::uint64_t offset) {
  for (std::int32_t i = 0; i < count; ++i) {
    list[++list[0]] = random_words(seed, offset + static_cast<std::uint64_t>(i))[0];
  }
}
// Nothing but where it was told to begin.
void keep(std::uint64_t* to, std::uint64_t seed, std::uint64_t offset) {
  to[0] = seed;
  to[1] = offset;
}

class Random : public GraphOn {
 protected:
  Random() {
    const Module own = device.load_table({kernel<&draw>("draw"), kernel<&keep>("keep")});
    draw_kernel = own.kernel("draw");
    keep_kernel = own.kernel("keep");
  }
  void submit(const Generator& from, std::int32_t count) {
    const RandomDraw taken = from.take(stream, static_cast<std::uint64_t>(count));
    stream.launch(draw_kernel, {}, list.data(), count, taken.seed, taken.offset);
  }
  std::vector<std::uint32_t> drawn() {
    stream.synchronize();
    std::vector<std::uint32_t> words(list.begin() + 1, list.begin() + 1 + list[0]);
    list[0] = 0;
    return words;
  }

  Kernel draw_kernel, keep_kernel;
  std::vector<std::uint32_t> list = std::vector<std::uint32_t>(4096);
};

// A mixture of eager draws, replays, reseeding and captures that fail draws the same words with and without graphs.
TEST_P(Random, ReplaysDrawWhatEagerCallsWould) {
  for (const Tier tier : {Tier::kReadLate, Tier::kCut}) {
    for (const Order order : {Order::kAuto, Order::kUpdateFirst}) {
      const Generator a(42), b(0xFFFFFFFF'FFFFFFFF);
      std::vector<std::uint32_t> words[2];
      for (const bool by_graph : {false, true}) {
        a.seed(42);
        b.set_state({9, 0xFFFFFFFF});  // the offset grows beyond 32 bits
        const auto body = [&] {
          submit(a, 3);
          submit(b, 5);
          submit(a, 2);
        };
        ExecutableGraph graph;
        if (by_graph) {
          Capture capture(stream, "draws");
          body();
          graph = capture.end().instantiate({.order = order, .tier = tier});
          EXPECT_EQ(a.state().offset, 0u);
        }
        const auto step = [&] { by_graph ? (void)graph.launch(stream) : body(); };
        step();
        step();
        submit(a, 1);
        step();
        a.seed(7);
        step();
        try {
          Capture failing(stream, "fails");
          submit(a, 100);
          throw std::runtime_error("boom");
        } catch (const std::runtime_error&) {
        }
        submit(a, 4);
        step();
        words[by_graph] = drawn();
      }
      EXPECT_EQ(words[0], words[1]);
      EXPECT_EQ(words[0].size(), 5 * 10 + 5u);
    }
  }
}

// Published later and out of order: a step has what was taken when it was launched.
TEST_P(Random, StepsKeepWhatTheyTookAtTheirLaunch) {
  std::uint64_t seen[4][2] = {};
  const Generator generator(5);
  Capture capture(stream, "kept");
  const auto which = capture.parameter<std::uint64_t*>("to", &seen[0][0]);
  const RandomDraw taken = generator.take(stream, 10);
  stream.launch(keep_kernel, {}, which, taken.seed, taken.offset);
  const ExecutableGraph graph = capture.end().instantiate({.depth = 4});
  StepValues values = graph.values();
  Step steps[4];
  for (int i = 0; i < 4; ++i) {
    if (i == 2) generator.seed(6);
    steps[i] = graph.launch_open(stream, Publisher::kOtherThread);
    (void)generator.take(1);
  }
  for (const int i : {2, 0, 3, 1}) {
    values.set(which, &seen[i][0]);
    graph.publish(steps[i], values);
  }
  stream.synchronize();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(seen[i][0], i < 2 ? 5u : 6u);
    EXPECT_EQ(seen[i][1], static_cast<std::uint64_t>(i % 2) * 11);
  }
  // What is refused before a step has begun takes nothing.
  const std::uint64_t before = generator.state().offset;
  EXPECT_THROW((void)graph.launch(stream), Error);  // it needs values
  EXPECT_EQ(generator.state().offset, before);
}

// A step that an operation refuses and that is published again draws what it took the first time.
TEST_P(Random, RefusedAndPublishedAgain) {
  std::uint64_t seen[2] = {};
  const Generator generator(5);
  bool refuses = false;
  Capture capture(stream, "again");
  const auto n = capture.parameter<std::int32_t>("n");
  const Operation op = capture.operation("op", {n}, {OutputSpec::argument(ArgKind::kI32)}, [&](OperationCall& call) {
    if (refuses) throw std::runtime_error("no");
    call.set(0, call.input<std::int32_t>(0));
  });
  const RandomDraw taken = generator.take(stream, 3);
  std::int32_t x = 0;
  stream.launch(module.kernel("put"), {}, &x, op.output<std::int32_t>(0));
  stream.launch(keep_kernel, {}, seen, taken.seed, taken.offset);
  const ExecutableGraph graph = capture.end().instantiate();
  const StepValues values = graph.values();
  graph.launch(stream, values);
  refuses = true;
  EXPECT_THROW(graph.launch(stream, values), Error);
  (void)generator.take(100);
  refuses = false;
  graph.publish({2}, values);
  stream.synchronize();
  EXPECT_EQ(seen[1], 3u);
  EXPECT_EQ(generator.state().offset, 106u);
}

// A graph inside a graph draws behind what its parent drew before it, of shared generators and of its own.
TEST_P(Random, NestedGraphs) {
  const Generator shared(1), own(2);
  std::vector<std::uint32_t> words[2];
  for (const bool by_graph : {false, true}) {
    shared.seed(1);
    own.seed(2);
    const auto inner = [&] {
      submit(shared, 2);
      submit(own, 3);
    };
    ExecutableGraph child, graph;
    if (by_graph) {
      Capture capture(stream, "child");
      inner();
      child = capture.end().instantiate();
    }
    const auto outer = [&] {
      submit(shared, 1);
      for (int i = 0; i < 2; ++i) by_graph ? (void)child.launch(stream) : inner();
      submit(shared, 1);
    };
    if (by_graph) {
      Capture capture(stream, "parent");
      outer();
      graph = capture.end().instantiate();
    }
    for (int i = 0; i < 3; ++i) {
      by_graph ? (void)graph.launch(stream) : outer();
      by_graph ? (void)child.launch(stream) : inner();
    }
    words[by_graph] = drawn();
  }
  EXPECT_EQ(words[0], words[1]);
  EXPECT_EQ(words[0].size(), 3 * 17u);
}

// Graphs and threads that share one never draw a position twice, and leave none out.
TEST_P(Random, SharedByGraphsAndThreads) {
  const Generator generator(3);
  constexpr std::size_t kThreads = 3, kTakes = 40;
  std::vector<std::future<std::vector<std::uint64_t>>> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.push_back(std::async(std::launch::async, [&] {
      const Stream own = device.create_stream();
      std::vector<std::uint64_t> offsets;
      std::uint64_t seen[2] = {};
      Capture capture(own, "thread's");
      const RandomDraw taken = generator.take(own, 2);
      own.launch(keep_kernel, {}, seen, taken.seed, taken.offset);
      const ExecutableGraph graph = capture.end().instantiate();
      for (std::size_t i = 0; i < kTakes; ++i) {
        if (i % 4 == 3) {
          offsets.push_back(generator.take(2).offset);
          continue;
        }
        graph.launch(own);
        own.synchronize();
        EXPECT_EQ(seen[0], 3u);
        offsets.push_back(seen[1]);
      }
      return offsets;
    }));
  }
  std::set<std::uint64_t> all;
  for (auto& thread : threads) {
    for (const std::uint64_t offset : thread.get()) all.insert(offset);
  }
  EXPECT_EQ(all.size(), kThreads * kTakes);
  EXPECT_EQ(*all.rbegin(), 2 * (kThreads * kTakes - 1));
  EXPECT_EQ(generator.state().offset, 2 * kThreads * kTakes);
}

INSTANTIATE_TEST_SUITE_P(Devices, Random, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
