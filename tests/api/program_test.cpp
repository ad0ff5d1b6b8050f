// Random programs of launches, copies, fills and events on eight streams, compared with a sequential model. A program
// orders every two uses of one slot by events, so its result is that of running it in submission order.
// SLIPWAY_SEED=N repeats one program; SLIPWAY_PROGRAMS=N runs more of them.
#include <cstdlib>
#include <cstring>
#include <random>

#include "support.h"

namespace slipway::api_tests {
namespace {

constexpr std::size_t kStreams = 8, kSlots = 12, kWords = 40;

void combine(const Block& block, std::uint32_t* out, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t by) {
  for (std::size_t i = block.index.x; i < kWords; i += block.grid.x) out[i] = a[i] * 3 + b[i] + by;
}

struct Slot {
  Memory memory;
  std::vector<std::uint32_t> model = std::vector<std::uint32_t>(kWords, 0);
  std::size_t last_writer = 0;                       // stream
  Event written;                                     // by the last writer
  std::vector<std::pair<std::size_t, Event>> reads;  // since then
};

class Program {
 public:
  Program(const Device& device, std::uint64_t seed) : device_(device), random_(seed) {
    const Module module = device.load_table({kernel<&combine>("combine")});
    combine_ = module.kernel("combine");
    plan_ = LaunchPlan::create(combine_);
    typed_ = LaunchPlan::create(combine_)
                 .typed_grid<Tensor<std::uint32_t>, Tensor<const std::uint32_t>, Tensor<const std::uint32_t>,
                             std::uint32_t>();
    for (std::size_t i = 0; i < kStreams; ++i) {
      StreamOptions options;
      options.ring_bytes = 16 << 10;
      options.priority = static_cast<int>(i % 3) - 1;
      streams_.push_back(device.create_stream(options));
    }
    for (Slot& slot : slots_) {
      slot.memory = device.allocate(kWords * 4);
      slot.written = device.create_event();
      streams_[0].fill(slot.memory.address(), 0, 4, kWords);
      streams_[0].mark(slot.written);
    }
  }

  ~Program() { device_.synchronize(); }  // copies to read_back_
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  void check() {
    for (Slot& slot : slots_) {
      std::vector<std::uint32_t> got(kWords);
      streams_[0].wait(slot.written);
      streams_[0].copy_to_host(got.data(), slot.memory.address(), kWords * 4);
      streams_[0].synchronize();
      ASSERT_EQ(got, slot.model) << "slot " << &slot - slots_;
    }
    device_.synchronize();  // reads may be behind the last writes
    for (const auto& [got, wanted] : read_back_) ASSERT_EQ(*got, wanted);
    for (const Stream& s : streams_) ASSERT_TRUE(s.idle());
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  void before_read(std::size_t stream, Slot& slot) {
    if (slot.last_writer != stream || below(4) == 0) streams_[stream].wait(slot.written);
  }
  void after_read(std::size_t stream, Slot& slot) {
    Event event = device_.create_event();
    streams_[stream].mark(event);
    slot.reads.emplace_back(stream, std::move(event));
  }
  void before_write(std::size_t stream, Slot& slot) {
    before_read(stream, slot);
    for (const auto& [reader, event] : slot.reads) {
      if (reader != stream) streams_[stream].wait(event);
    }
    slot.reads.clear();
  }
  void after_write(std::size_t stream, Slot& slot) {
    if (below(3) == 0) slot.written = device_.create_event();
    streams_[stream].mark(slot.written);
    slot.last_writer = stream;
  }

  void launch(std::size_t stream, Slot& out, Slot& a, Slot& b) {
    before_read(stream, a);
    before_read(stream, b);
    before_write(stream, out);
    const auto by = static_cast<std::uint32_t>(random_());
    const auto grid = static_cast<std::int64_t>(1 + below(9));
    const Stream& s = streams_[stream];
    switch (below(3)) {
      case 0: {
        LaunchShape shape{{grid, 1, 1}};
        shape.spread = below(2) == 0;
        s.launch(combine_, shape, out.memory, a.memory, b.memory, by);
        break;
      }
      case 1: {
        const Argument arguments[] = {out.memory, a.memory, b.memory, by};
        plan_.launch_arguments(s, Extent{grid, 1, 1}, arguments);
        break;
      }
      default:
        typed_(s, {grid, 1, 1}, out.memory.tensor<std::uint32_t>(), a.memory.tensor<std::uint32_t>(),
               b.memory.tensor<std::uint32_t>(), by);
    }
    std::vector<std::uint32_t> result(kWords);
    for (std::size_t i = 0; i < kWords; ++i) result[i] = a.model[i] * 3 + b.model[i] + by;
    out.model = std::move(result);
    if (&a != &out) after_read(stream, a);
    if (&b != &out && &b != &a) after_read(stream, b);
    after_write(stream, out);
  }

  void partial_write(std::size_t stream, Slot& slot) {
    before_write(stream, slot);
    const std::size_t first = below(kWords), n = below(kWords - first) + 1;
    const Stream& s = streams_[stream];
    if (below(2) == 0) {
      const auto value = static_cast<std::uint32_t>(random_());
      s.fill(offset(slot.memory.address(), first * 4), value, 4, n);
      std::fill_n(slot.model.begin() + static_cast<std::ptrdiff_t>(first), n, value);
    } else {
      std::vector<std::uint32_t> words(n);
      for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random_());
      s.copy_to_device(offset(slot.memory.address(), first * 4), words.data(), n * 4);
      std::copy(words.begin(), words.end(), slot.model.begin() + static_cast<std::ptrdiff_t>(first));
    }
    after_write(stream, slot);
  }

  void step() {
    const std::size_t stream = below(kStreams);
    const Stream& s = streams_[stream];
    Slot& slot = slots_[below(kSlots)];
    Slot& other = slots_[below(kSlots)];
    switch (below(12)) {
      case 0:
      case 1: return partial_write(stream, slot);
      case 2:
        if (&slot == &other) return;
        before_read(stream, other);
        before_write(stream, slot);
        s.copy(slot.memory.address(), other.memory.address(), kWords * 4);
        slot.model = other.model;
        after_read(stream, other);
        return after_write(stream, slot);
      case 3: {
        auto got = std::make_unique<std::vector<std::uint32_t>>(kWords);
        before_read(stream, slot);
        s.copy_to_host(got->data(), slot.memory.address(), kWords * 4);
        read_back_.emplace_back(std::move(got), slot.model);
        return after_read(stream, slot);
      }
      case 4:
        if (below(4) == 0) s.synchronize();
        return;
      case 5:  // the block goes while it is still in use, and another takes its place
        if (below(4) != 0) return;
        before_write(stream, slot);
        slot.memory = device_.allocate(kWords * 4);
        s.fill(slot.memory.address(), 0, 4, kWords);
        slot.model.assign(kWords, 0);
        return after_write(stream, slot);
      case 6: s.host_function([] {}); return;
      default: return launch(stream, slot, other, slots_[below(kSlots)]);
    }
  }

  const Device& device_;
  std::mt19937_64 random_;
  Kernel combine_;
  LaunchPlan plan_;
  TypedGridLaunch<Tensor<std::uint32_t>, Tensor<const std::uint32_t>, Tensor<const std::uint32_t>, std::uint32_t>
      typed_;
  std::vector<Stream> streams_;
  Slot slots_[kSlots];
  std::vector<std::pair<std::unique_ptr<std::vector<std::uint32_t>>, std::vector<std::uint32_t>>> read_back_;
};

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

class Programs : public ::testing::TestWithParam<const char*> {};

TEST_P(Programs, GiveWhatTheSequentialModelGives) {
  const std::uint64_t first = number_of("SLIPWAY_SEED", 1),
                      count = number_of("SLIPWAY_PROGRAMS", std::getenv("SLIPWAY_SEED") ? 1 : 25);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(std::string(GetParam()) + ", repeat with SLIPWAY_SEED=" + std::to_string(seed));
    const Device device = Device::open(GetParam());
    Program program(device, seed);
    program.run(400);
    program.check();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs,
                         ::testing::Values("cpu:workers=1", "cpu:workers=2", "cpu:inline", "cpu:workers=2,spin_us=0"),
                         device_name);

}  // namespace
}  // namespace slipway::api_tests
