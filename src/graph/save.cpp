#include "slipway/save.h"

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "graph/capture_impl.h"

namespace slipway {
namespace {

// Plain host memory: what a graph holds must refer to no device (TapeResources).
struct Kept {
  std::string name;
  std::uint64_t count = 0;
  std::vector<std::max_align_t> bytes;
  SaveFunction function;
};

}  // namespace

void save(const Stream& stream, const std::string& name, DevicePtr from, std::uint64_t bytes, SaveFunction function,
          const SaveOptions& options) {
  internal::StreamImpl& s = internal::deref(stream, "the stream");
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument, "the values '" + name + "' were to be saved by nothing; pass a function");
  }
  auto kept = std::make_shared<Kept>();
  kept->name = name;
  kept->bytes.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  kept->function = std::move(function);
  void* const to = kept->bytes.data();
  const auto call = [kept = std::move(kept), bytes] {
    kept->function({kept->name, ++kept->count, {reinterpret_cast<const std::byte*>(kept->bytes.data()), bytes}});
  };
  stream.copy_to_host(to, from, bytes);
  const auto capture = std::dynamic_pointer_cast<internal::CaptureImpl>(s.capture());
  if (!capture || !options.beside) return stream.host_function(call, "save " + name);
  const Event copied = Device(s.shared_device()).create_event();
  const Stream beside = capture->side_stream();
  stream.mark(copied);
  beside.wait(copied);
  beside.host_function(call, "save " + name);
}

void detail::print_line(const std::string& line) { std::puts(line.c_str()); }

namespace internal {

// It is joined back when the capture ends.
Stream CaptureImpl::side_stream() {
  const std::lock_guard lock(mutex_);
  require_valid();
  if (!side_) side_ = Device(device_).create_stream({.name = "saves of " + name_}).impl();
  return Stream(side_);
}

}  // namespace internal
}  // namespace slipway
