// What the operation costs when nothing is left of it but the part that no runtime can do without.
#include <array>
#include <cstring>
#include <memory>

#include "suites.h"

#if defined(SLIPWAY_BENCH_BOOST)
#include <boost/lockfree/spsc_queue.hpp>
#endif

namespace bench {
namespace {

std::uint64_t g_called = 0;

[[gnu::noinline]] void six_pointers(void* a, void*, void*, void*, void*, void*) { g_called += a != nullptr; }
using SixPointers = void (*)(void*, void*, void*, void*, void*, void*);
SixPointers volatile g_six_pointers = six_pointers;

Sample call_through_pointer() {
  const std::uint64_t before = g_called;
  int values[6]{};
  const std::int64_t start = now_ns();
  for (int i = 0; i < kBatchItems; ++i) {
    g_six_pointers(values, values + 1, values + 2, values + 3, values + 4, values + 5);
  }
  const double took = static_cast<double>(now_ns() - start);
  prove(g_called - before == kBatchItems, "calls through a pointer");
  return {took / kBatchItems, 0};
}

// A ring of whole cache-line pairs: the producer copies a template and publishes, the consumer reads one word of each.
// Batches fit, so that the producer never waits.
struct TemplateRing {
  struct alignas(128) Slot {
    std::uint64_t words[16];
  };
  static constexpr std::size_t kSlots = 2048;
  std::unique_ptr<Slot[]> slots = std::make_unique<Slot[]>(kSlots);
  Slot source{};
  std::uint64_t position = 0;
  alignas(64) std::atomic<std::uint64_t> published{0};
  alignas(64) std::atomic<std::uint64_t> consumed{0};
  std::uint64_t sum = 0;

  void produce() noexcept {
    source.words[0] = position;
    for (int i = 0; i < kBatchItems; ++i) {
      std::memcpy(&slots[position % kSlots], &source, sizeof source);
      published.store(++position, std::memory_order_release);
    }
  }
  void consume(std::uint64_t until) noexcept {
    std::uint64_t at = consumed.load(std::memory_order_relaxed);
    while (at != until) {
      const std::uint64_t end = published.load(std::memory_order_acquire);
      if (at == end) relax();
      for (; at != end; ++at) sum += slots[at % kSlots].words[15];
      consumed.store(at, std::memory_order_release);
    }
  }
};

Sample template_alone(TemplateRing& ring) {
  ring.source.words[15] = 1;
  const std::int64_t start = now_ns();
  ring.produce();
  const double took = static_cast<double>(now_ns() - start);
  const std::uint64_t before = ring.sum;
  ring.consume(ring.position);
  prove(ring.sum - before == kBatchItems, "templates in the ring");
  return {took / kBatchItems, 0};
}

// Times `produce` on this thread while the partner runs `consume`.
template <class Produce, class Consume, class Done>
Sample across(Partner& partner, Produce&& produce, Consume&& consume, Done&& done) {
  partner.start(consume);
  const std::int64_t start = now_ns();
  produce();
  const std::int64_t produced = now_ns();
  while (!done()) relax();
  const std::int64_t end = now_ns();
  partner.join();
  return {static_cast<double>(produced - start) / kBatchItems, static_cast<double>(end - start) / kBatchItems};
}

Sample template_across(TemplateRing& ring, Partner& partner) {
  ring.source.words[15] = 1;
  const std::uint64_t before = ring.sum, until = ring.position + kBatchItems;
  const Sample sample = across(
      partner, [&] { ring.produce(); }, [&ring, until] { ring.consume(until); },
      [&] { return ring.consumed.load(std::memory_order_acquire) == until; });
  prove(ring.sum - before == kBatchItems, "templates across processors");
  return sample;
}

#if defined(SLIPWAY_BENCH_BOOST)
struct Item {
  std::array<std::uint64_t, 8> words;
};
struct BoostQueue {
  boost::lockfree::spsc_queue<Item, boost::lockfree::capacity<4096>> queue;
  alignas(64) std::atomic<bool> done{false};
  std::uint64_t sum = 0;
};

Sample boost_across(BoostQueue& q, Partner& partner) {
  q.done.store(false);
  const std::uint64_t before = q.sum;
  const Sample sample = across(
      partner,
      [&] {
        Item item{};
        item.words[7] = 1;
        for (int i = 0; i < kBatchItems; ++i) {
          item.words[0] = static_cast<std::uint64_t>(i);
          while (!q.queue.push(item)) relax();
        }
      },
      [&q] {
        Item item{};
        for (int i = 0; i < kBatchItems;) {
          if (!q.queue.pop(item)) relax();
          else q.sum += item.words[7], ++i;
        }
        q.done.store(true, std::memory_order_release);
      },
      [&] { return q.done.load(std::memory_order_acquire); });
  prove(q.sum - before == kBatchItems, "items of boost's queue");
  return sample;
}
#endif

}  // namespace

void add_floors(Rows& rows, Partner& partner) {
  rows.add("floor", "call through a pointer, 6 pointers", call_through_pointer);
  auto ring = std::make_shared<TemplateRing>();
  rows.add("floor", "128-byte template, one release store", [ring] { return template_alone(*ring); });
  rows.add("floor", "the same with a live consumer", [ring, &partner] { return template_across(*ring, partner); });
#if defined(SLIPWAY_BENCH_BOOST)
  auto queue = std::make_shared<BoostQueue>();
  rows.add("floor", "boost spsc_queue, 64-byte item", [queue, &partner] { return boost_across(*queue, partner); });
#endif
}

}  // namespace bench
