// Devices on which what a kernel reads can be looked at, whatever the layout: the cpu device with a kernel that keeps
// its bytes, and the null device, which stores what it was given.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <mutex>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "property/random_values.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::property {

// What the test knows of an ABI, written down once more and not taken from the library.
struct Abi {
  const char* name;
  bool control_address;
  unsigned reserved_pointers;
  unsigned bool_bytes;
  bool grid_words;
  unsigned
      tail;  // the size is a multiple of the largest alignment met, at least this; 0: it ends with the last argument
};
inline constexpr Abi kNatural{"natural", false, 0, 1, false, 0};
inline constexpr Abi kPlain{"plain", false, 0, 1, false, 1};
inline constexpr Abi kAscend{"ascend", true, 2, 4, true, 4};
inline constexpr Abi kAscendSimt{"ascend-simt", false, 0, 4, true, 4};
inline constexpr std::uint64_t kControlAddress = std::uint64_t{1} << 43;  // of the null device

// The packed bytes as they have to be, and which of them are somebody's.
struct Packed {
  std::vector<std::byte> bytes;
  std::vector<bool> meant;

  void put(const void* from, std::size_t size, std::size_t alignment, std::size_t slot_bytes) {
    align(alignment);
    largest = std::max(largest, alignment);
    const auto* data = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), data, data + size);
    bytes.resize(bytes.size() + slot_bytes - size);
    meant.resize(bytes.size(), true);
  }
  void align(std::size_t alignment) {
    while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
    meant.resize(bytes.size(), false);
  }
  std::size_t largest = 1;
};

inline Packed pack_by_hand(const Abi& abi, const Values& values, const Dim3& grid) {
  Packed packed;
  const std::uint64_t null = 0;
  if (abi.control_address) packed.put(&kControlAddress, 8, 8, 8);
  for (unsigned i = 0; i < abi.reserved_pointers; ++i) packed.put(&null, 8, 8, 8);
  for (const Value& v : values) {
    const std::size_t natural = v.bytes.size();
    const std::size_t slot = v.parameter.kind == ArgKind::kBool ? abi.bool_bytes : natural;
    packed.put(v.bytes.data(), natural, v.parameter.kind == ArgKind::kBytes ? v.parameter.align_bytes : slot, slot);
  }
  if (abi.grid_words) packed.put(&grid, 12, 4, 12);
  if (abi.tail != 0) packed.align(std::max<std::size_t>(packed.largest, abi.tail));
  return packed;
}

struct Launched {
  std::string name;
  std::vector<std::byte> arguments;
  Dim3 grid;
};

// Of the kernels on cpu: what they were called with.
struct Recorder {
  std::mutex mutex;
  std::size_t bytes = 0;  // to keep of each launch; the layout knows, the kernel cannot
  std::vector<Launched> launched;

  static Recorder& instance() {
    static Recorder recorder;
    return recorder;
  }
  static void entry(const std::byte* packed, const Block& block, const void*) {
    if (block.index != Dim3{0, 0, 0}) return;
    Recorder& recorder = instance();
    const std::lock_guard lock(recorder.mutex);
    recorder.launched.push_back({"", {packed, packed + recorder.bytes}, block.grid});
  }
};

struct RigOptions {
  const char* uri;
  const Abi* abi;
  bool shared_stream = false;  // a second thread has submitted to the stream, which takes a lock from then on
  bool timeline = false;
};

inline std::ostream& operator<<(std::ostream& out, const RigOptions& options) {
  return out << options.uri << (options.shared_stream ? " shared" : "") << (options.timeline ? " timeline" : "");
}

class Rig {
 public:
  explicit Rig(const RigOptions& options)
      : device(Device::open(options.uri)), stream(device.create_stream()), abi(*options.abi) {
    if (options.timeline) device.start_timeline(1 << 12);
    if (options.shared_stream) {
      stream.host_function([] {});
      std::thread([&] { stream.host_function([] {}); }).join();
      stream.synchronize();
    }
    (void)take();
  }

  // A kernel that keeps its arguments.
  Kernel load(const std::string& name, const Signature& signature) const {
    const KernelDef def{name.c_str(), &Recorder::entry, signature.data(), signature.size()};
    return device.load_table({def}).kernel(name);
  }
  bool on_cpu() const { return device.info().driver == "cpu"; }

  // Before a launch: how many bytes the recorder is to keep.
  void expect(const Values& values) const {
    Recorder& recorder = Recorder::instance();
    const std::lock_guard lock(recorder.mutex);
    recorder.bytes = pack_by_hand(abi, values, {}).bytes.size();
  }
  // What was launched since, after all of it has run.
  std::vector<Launched> take() const {
    stream.synchronize();
    if (on_cpu()) {
      Recorder& recorder = Recorder::instance();
      const std::lock_guard lock(recorder.mutex);
      return std::exchange(recorder.launched, {});
    }
    std::vector<Launched> launched;
    for (testing::StoredWork& work : testing::take_stored(device)) {
      if (work.kind != testing::StoredWork::Kind::kLaunch) continue;
      EXPECT_EQ(work.total_blocks, std::uint64_t{work.grid.x} * work.grid.y * work.grid.z);
      launched.push_back({work.name, std::move(work.arguments), work.grid});
    }
    return launched;
  }

  // Exactly one launch came, with these values and this grid.
  void expect_launched(const Values& values, const Dim3& grid, const std::string& what) const {
    const std::vector<Launched> launched = take();
    ASSERT_EQ(launched.size(), 1U) << what;
    expect_arrived(launched[0], values, grid, what);
  }
  void expect_arrived(const Launched& launched, const Values& values, const Dim3& grid, const std::string& what) const {
    ASSERT_EQ(launched.grid, grid) << what;
    const Packed wanted = pack_by_hand(abi, values, grid);
    ASSERT_EQ(launched.arguments.size(), wanted.bytes.size()) << what;
    for (std::size_t i = 0; i < wanted.bytes.size(); ++i) {
      // The frame of Ascend is zero where nothing else is; elsewhere padding is nobody's business.
      if (!wanted.meant[i] && !abi.grid_words) continue;
      ASSERT_EQ(launched.arguments[i], wanted.bytes[i])
          << what << ": byte " << i << " of " << abi.name << "\n  is     " << text(launched.arguments) << "\n  wanted "
          << text(wanted.bytes);
    }
  }

  Device device;
  Stream stream;
  const Abi& abi;

 private:
  static std::string text(const std::vector<std::byte>& bytes) {
    std::ostringstream out;
    out << std::hex << std::setfill('0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
      out << (i % 4 == 0 ? " " : "") << std::setw(2) << static_cast<int>(bytes[i]);
    return out.str();
  }
};

// Every ABI on the null device, and the cpu device; blocking mode, a shared stream and the timeline go other ways.
inline const RigOptions kRigs[] = {
    {"cpu:inline", &kNatural},
    {"cpu:workers=1", &kNatural},
    {"cpu:inline,blocking", &kNatural},
    {"null:store", &kNatural},
    {"null:store,abi=plain", &kPlain},
    {"null:store,abi=cuda", &kNatural},
    {"null:store,abi=ascend", &kAscend},
    {"null:store,abi=ascend-simt", &kAscendSimt},
    {"null:store,abi=ascend,workers=1", &kAscend},
    {"null:store,abi=ascend,blocking", &kAscend},
    {"null:store,abi=ascend-simt,blocking", &kAscendSimt},
    {"null:store,abi=ascend", &kAscend, true, false},
    {"null:store,abi=ascend-simt", &kAscendSimt, false, true},
};

}  // namespace slipway::property
