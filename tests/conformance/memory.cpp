// Allocation, copies and fills.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + seed);
  return bytes;
}

std::uint64_t live_bytes(const Device& device) { return device.counters().live_memory_bytes; }

void allocate_and_free(Context& c) {
  const Device& device = c.device();
  device.synchronize(kLimit);
  const std::uint64_t before = live_bytes(device);
  {
    std::vector<Memory> blocks;
    std::uint64_t total = 0;
    for (const std::uint64_t size : {1, 7, 64, 4096, 1 << 20}) {
      blocks.push_back(device.allocate(size));
      total += size;
      const auto address = static_cast<std::uint64_t>(blocks.back().address());
      check_equal(blocks.back().size_bytes(), size, "size of a block");
      check(address != 0, "a block has an address");
      check_equal(address % device.info().memory_alignment, 0U, "address modulo memory_alignment");
    }
    check_equal(live_bytes(device), before + total, "live bytes while the blocks live");
    std::sort(blocks.begin(), blocks.end(), [](const Memory& a, const Memory& b) { return a.address() < b.address(); });
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      check(offset(blocks[i - 1].address(), blocks[i - 1].size_bytes()) <= blocks[i].address(),
            "blocks do not overlap");
    }
    const Memory copy = blocks.front();
    blocks.clear();
    check_equal(live_bytes(device), before + copy.size_bytes(), "live bytes while one copy of a handle lives");
  }
  device.synchronize(kLimit);
  check_equal(live_bytes(device), before, "live bytes after all were dropped");
  const HostMemory host = device.allocate_host(1000);
  check(host.data() != nullptr, "host memory has an address");
  std::memset(host.data(), 0x5A, 1000);
  check_equal(live_bytes(device), before, "host memory does not count as the device's");
}

void too_much_is_refused(Context& c) {
  // So large that a sanitizer's allocator is not asked either, which would end the program.
  check_throws(ErrorCode::kOutOfMemory, {}, [&] { (void)c.device().allocate(std::uint64_t{1} << 63); });
  check_throws(ErrorCode::kOutOfMemory, {}, [&] { (void)c.device().allocate(~std::uint64_t{0}); });
  check_throws(ErrorCode::kOutOfMemory, {}, [&] { (void)c.device().allocate_host(~std::uint64_t{0}); });
  check(static_cast<bool>(c.device().allocate(16)), "memory is to be had afterwards");
}

// Up to 4 KiB travel in the record, more is staged; the source is ours again on return either way.
void copies_round_trip(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream({.ring_bytes = 64 << 10});
  for (const std::size_t size : {1, 3, 8, 255, 4095, 4096, 4097, 100'000, 3 << 20}) {
    const Memory memory = device.allocate(size);
    testing::Hold hold(device);
    hold.hold(stream);
    Bytes source = pattern(size, 1);
    stream.copy_to_device(memory.address(), source.data(), size);
    std::fill(source.begin(), source.end(), std::uint8_t{0xEE});
    hold.release();
    check(download<std::uint8_t>(stream, memory, size) == pattern(size, 1),
          "a copy of " + std::to_string(size) + " bytes comes back as its source was at the call");
  }
}

void copies_at_offsets(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  constexpr std::size_t kSize = 20'000;
  const Memory a = upload(device, stream, Bytes(kSize, 1));
  const Memory b = upload(device, stream, Bytes(kSize, 2));
  Bytes wanted_a(kSize, 1), wanted_b(kSize, 2);
  for (const auto& [at, size] : {std::pair<std::size_t, std::size_t>{1, 1}, {17, 300}, {1003, 5001}, {kSize - 7, 7}}) {
    const Bytes part = pattern(size, static_cast<unsigned>(at));
    stream.copy_to_device(offset(a.address(), at), part.data(), size);
    std::copy(part.begin(), part.end(), wanted_a.begin() + static_cast<std::ptrdiff_t>(at));
    stream.copy(offset(b.address(), kSize - at - size), offset(a.address(), at), size);
    std::copy(part.begin(), part.end(), wanted_b.begin() + static_cast<std::ptrdiff_t>(kSize - at - size));
    check(download<std::uint8_t>(stream, offset(a.address(), at), size) == part, "a range comes back");
  }
  check(download<std::uint8_t>(stream, a, kSize) == wanted_a, "what lies around the ranges is untouched");
  check(download<std::uint8_t>(stream, b, kSize) == wanted_b, "copies within the device reach their places");
}

void host_memory_copies(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  constexpr std::size_t kSize = 50'000;
  const HostMemory host = device.allocate_host(kSize);
  const Bytes source = pattern(kSize, 3);
  std::memcpy(host.data(), source.data(), kSize);
  const Memory memory = device.allocate(kSize);
  stream.copy_to_device_async(memory.address(), host, 0, kSize);
  stream.copy_to_device_async(offset(memory.address(), 10), host, 100, 1000);
  const HostMemory back = device.allocate_host(kSize);
  std::memset(back.data(), 0, kSize);
  stream.copy_to_host_async(back, 5, memory.address(), kSize - 5);
  stream.synchronize(kLimit);
  Bytes wanted = source;
  std::copy_n(source.begin() + 100, 1000, wanted.begin() + 10);
  wanted.insert(wanted.begin(), 5, std::uint8_t{0});
  wanted.resize(kSize);
  check(std::memcmp(back.data(), wanted.data(), kSize) == 0, "copies from and to host memory, with offsets");
}

void host_memory_ranges_are_refused(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const HostMemory host = device.allocate_host(100);
  const Memory memory = device.allocate(1000);
  const std::uint64_t before = stream.submitted();
  check_throws(ErrorCode::kOutOfRange, {"101", "100"},
               [&] { stream.copy_to_device_async(memory.address(), host, 0, 101); });
  check_throws(ErrorCode::kOutOfRange, {"60", "50"},
               [&] { stream.copy_to_host_async(host, 50, memory.address(), 60); });
  check_throws(ErrorCode::kOutOfRange, {}, [&] { stream.copy_to_device_async(memory.address(), host, ~0ULL, 2); });
  check_throws(ErrorCode::kInvalidArgument, {"empty handle"},
               [&] { stream.copy_to_device_async(memory.address(), HostMemory(), 0, 1); });
  check_equal(stream.submitted(), before, "submissions after refusals");
}

void fills(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  constexpr std::size_t kSize = 4096;
  for (const std::uint32_t width : {1U, 2U, 4U, 8U}) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x8182838485868788}, std::uint64_t{1}}) {
      const std::uint64_t masked = width == 8 ? value : value & ((std::uint64_t{1} << (8 * width)) - 1);
      const Memory memory = upload(device, stream, Bytes(kSize, 0xCC));
      stream.fill(offset(memory.address(), 16), masked, width, 100);
      Bytes wanted(kSize, 0xCC);
      for (std::size_t i = 0; i < 100; ++i) std::memcpy(&wanted[16 + i * width], &masked, width);
      check(download<std::uint8_t>(stream, memory, kSize) == wanted,
            "100 patterns of " + std::to_string(width) + " bytes at offset 16");
      stream.fill(memory.address(), masked, width, kSize / width);
      for (std::size_t i = 0; i < kSize; i += width) std::memcpy(&wanted[i], &masked, width);
      check(download<std::uint8_t>(stream, memory, kSize) == wanted, "a whole block filled");
    }
  }
}

void fills_are_refused(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory memory = device.allocate(64);
  const std::uint64_t before = stream.submitted();
  const DevicePtr at = memory.address();
  check_throws(ErrorCode::kInvalidArgument, {"3 bytes", "1, 2, 4 or 8"}, [&] { stream.fill(at, 0, 3, 1); });
  check_throws(ErrorCode::kInvalidArgument, {"0 bytes"}, [&] { stream.fill(at, 0, 0, 1); });
  check_throws(ErrorCode::kInvalidArgument, {"256", "1 bytes"}, [&] { stream.fill(at, 256, 1, 1); });
  check_throws(ErrorCode::kInvalidArgument, {"align"}, [&] { stream.fill(offset(at, 2), 0, 4, 1); });
  check_throws(ErrorCode::kOutOfRange, {"68", "64"}, [&] { stream.fill(at, 0, 4, 17); });
  check_throws(ErrorCode::kOutOfRange, {}, [&] { stream.fill(at, 0, 8, std::uint64_t{1} << 61); });
  check_throws(ErrorCode::kOutOfRange, {}, [&] { stream.fill(at, 0, 8, ~std::uint64_t{0} / 8); });
  check_throws(ErrorCode::kInvalidArgument, {"null address"}, [&] { stream.fill(kNullDevicePtr, 0, 4, 1); });
  check_equal(stream.submitted(), before, "submissions after refusals");
}

void ranges_are_refused(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory memory = device.allocate(100);
  const Memory other = device.allocate(200);
  Bytes host(300);
  const std::uint64_t before = stream.submitted();
  const DevicePtr at = memory.address();
  check_throws(ErrorCode::kOutOfRange, {"101", "100"}, [&] { stream.copy_to_device(at, host.data(), 101); });
  check_throws(ErrorCode::kOutOfRange, {"51", "50 left"},
               [&] { stream.copy_to_device(offset(at, 50), host.data(), 51); });
  check_throws(ErrorCode::kOutOfRange, {"the source"}, [&] { stream.copy_to_host(host.data(), at, 101); });
  check_throws(ErrorCode::kOutOfRange, {"the destination"}, [&] { stream.copy(at, other.address(), 150); });
  check_throws(ErrorCode::kOutOfRange, {"the source"}, [&] { stream.copy(other.address(), at, 150); });
  check_throws(ErrorCode::kOutOfRange, {}, [&] { stream.copy_to_device(at, host.data(), ~std::uint64_t{0}); });
  check_throws(ErrorCode::kInvalidArgument, {"null address"},
               [&] { stream.copy_to_device(kNullDevicePtr, host.data(), 4); });
  check_throws(ErrorCode::kInvalidArgument, {"null", "4 bytes"}, [&] { stream.copy_to_device(at, nullptr, 4); });
  check_throws(ErrorCode::kInvalidArgument, {"null", "4 bytes"}, [&] { stream.copy_to_host(nullptr, at, 4); });
  check_throws(ErrorCode::kInvalidArgument, {"overlaps"}, [&] { stream.copy(offset(at, 10), at, 11); });
  check_throws(ErrorCode::kInvalidArgument, {"overlaps"}, [&] { stream.copy(at, at, 1); });
  if (!device.info().host_addressable) {
    check_throws(ErrorCode::kInvalidArgument, {"no memory of this device"},
                 [&] { stream.copy_to_device(host_address(host.data()), host.data(), 4); });
  }
  check_equal(stream.submitted(), before, "submissions after refusals");
  stream.copy(offset(at, 10), at, 10);  // touching is not overlapping
  check_throws(ErrorCode::kOutOfRange, {"element 26", "25 elements"}, [&] { (void)memory.tensor<float>(26); });
  check_equal(static_cast<std::uint64_t>(memory.tensor<float>(25).address), static_cast<std::uint64_t>(offset(at, 100)),
              "the end of a block as a tensor");
  stream.synchronize(kLimit);
}

void zero_bytes(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory empty = device.allocate(0);
  const HostMemory host = device.allocate_host(0);
  check(static_cast<bool>(empty) && empty.address() == kNullDevicePtr && empty.size_bytes() == 0,
        "zero bytes give a valid handle with the null address");
  check(static_cast<bool>(host) && host.size_bytes() == 0, "zero bytes of host memory give a valid handle");
  const std::uint64_t before = stream.submitted();
  stream.copy_to_device(empty.address(), nullptr, 0);
  stream.copy_to_host(nullptr, empty.address(), 0);
  stream.copy(empty.address(), empty.address(), 0);
  stream.copy_to_device_async(empty.address(), host, 0, 0);
  stream.copy_to_host_async(host, 0, empty.address(), 0);
  stream.fill(empty.address(), 0, 4, 0);
  check_equal(stream.submitted(), before, "submissions of nothing");
  stream.synchronize(kLimit);
}

// B10: what a launch reads is freed, and memory of its size allocated and written, before it runs.
void freed_while_work_pends(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory out = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  const std::uint64_t before = live_bytes(device);
  Memory workspace = upload(device, stream, std::vector<float>(4, 1));
  stream.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(stream);
  stream.launch(add, {}, out.tensor<float>(), workspace.tensor<const float>(), 4, 7.0F);
  workspace = Memory();
  check_equal(live_bytes(device), before + 16, "live bytes while a launch that reads them pends");
  std::vector<Memory> same_size;
  for (int i = 0; i < 20; ++i) same_size.push_back(upload(device, other, std::vector<float>(4, 99)));
  other.synchronize(kLimit);
  hold.release();
  check_equal(download<float>(stream, out, 4), std::vector<float>(4, 8), "the result of the launch");
  check_equal(live_bytes(device), before + 20 * 16, "live bytes after the launch has passed");
}

// B10: launches that each have a workspace of their own leave nothing behind.
void workspaces_leave_nothing(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
  const Kernel add = c.kernel("add");
  const Memory out = device.allocate(64);
  stream.synchronize(kLimit);
  const std::uint64_t before = live_bytes(device);
  const int rounds = c.driver().name == std::string("opencl") ? 500 : 10'000;
  std::uint64_t most = 0;
  for (int i = 0; i < rounds; ++i) {
    const Memory workspace = device.allocate(64);
    stream.launch(add, {}, out.tensor<float>(), workspace.tensor<const float>(), 16, 1.0F);
    if (i % 100 == 0) most = std::max(most, live_bytes(device) - before);
  }
  stream.synchronize(kLimit);
  check_equal(live_bytes(device), before, "live bytes after " + std::to_string(rounds) + " launches");
  check(most <= std::uint64_t{64} * 1100, "live bytes stay bounded by the ring meanwhile: " + std::to_string(most));
}

void staging_is_counted_and_given_back(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  constexpr std::size_t kSize = 1 << 20;
  const Memory memory = device.allocate(kSize);
  const Bytes source(kSize, 9);
  const std::uint64_t before = device.counters().staged_bytes;
  testing::Hold hold(device);
  hold.hold(stream);
  for (int i = 0; i < 3; ++i) stream.copy_to_device(memory.address(), source.data(), kSize);
  stream.copy_to_device(memory.address(), source.data(), 4096);
  check_equal(device.counters().staged_bytes - before, 3 * kSize, "bytes staged by three copies of 1 MiB, held");
  hold.release();
  stream.synchronize(kLimit);
  check_equal(device.counters().staged_bytes, before, "bytes staged after they have passed");
}

void adopted_memory_is_not_freed(Context& c) {
  const Device& device = c.device();
  if (!device.info().host_addressable) return;  // whose memory would it be?
  const Stream stream = device.create_stream();
  alignas(64) float array[16] = {};
  {
    const Memory adopted = device.adopt_memory(host_address(&array[0]), sizeof array);
    stream.fill(adopted.address(), 0x3F800000, 4, 16);
    check_throws(ErrorCode::kOutOfRange, {}, [&] { stream.fill(adopted.address(), 0, 4, 17); });
    stream.synchronize(kLimit);
  }
  check_equal(array[15], 1.0F, "the last element of adopted memory");
  array[15] = 2;
  check_throws(ErrorCode::kInvalidArgument, {}, [&] { (void)device.adopt_memory(kNullDevicePtr, 4); });
}

constexpr Test kTests[] = {
    {"allocate_and_free", allocate_and_free},
    {"too_much_is_refused", too_much_is_refused},
    {"copies_round_trip", copies_round_trip, kRuns},
    {"copies_at_offsets", copies_at_offsets, kRuns},
    {"host_memory_copies", host_memory_copies, kRuns},
    {"host_memory_ranges_are_refused", host_memory_ranges_are_refused},
    {"fills", fills, kRuns},
    {"fills_are_refused", fills_are_refused},
    {"ranges_are_refused", ranges_are_refused},
    {"zero_bytes", zero_bytes},
    {"freed_while_work_pends_B10", freed_while_work_pends, kRuns},
    {"workspaces_leave_nothing_B10", workspaces_leave_nothing},
    {"staging_is_counted_and_given_back", staging_is_counted_and_given_back},
    {"adopted_memory_is_not_freed", adopted_memory_is_not_freed, kRuns},
};

}  // namespace

const Suite kMemorySuite{"memory", "allocation, copies of every size and direction, fills, refusals, freeing", kTests};

}  // namespace slipway::conformance
