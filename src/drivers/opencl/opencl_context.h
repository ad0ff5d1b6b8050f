// What the parts of the OpenCL driver share: one context with its device and memory, and the driver's threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "drivers/opencl/opencl_memory.h"
#include "drivers/opencl/opencl_symbols.h"
#include "slipway/types.h"

namespace slipway::internal {

struct ClLimits {
  std::string name;
  Dim3 max_block;
  std::uint64_t max_block_items = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t max_block_bytes = 0;  // of one memory block
  std::uint32_t max_argument_bytes = 0;
  std::uint32_t base_alignment = 1;  // of a sub-buffer, bytes
  std::uint32_t data_alignment = 1;  // of every allocation, bytes
  bool has_svm = false;
};

struct ClDevice {
  const ClSymbols* cl = nullptr;
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  ClLimits limits;
};

// The device at these places in the loader's lists. Unavailable when there is none, or it is older than OpenCL 1.2.
Result<ClDevice> find_device(std::int64_t platform_index, std::int64_t device_index);

// Shared by whatever was made in it, and released with the last of them.
class ClContext {
 public:
  static Result<std::shared_ptr<ClContext>> create(const ClDevice& device, ClMemoryMode mode);
  ClContext(const ClDevice& device, cl_context context, ClMemoryMode mode);
  ~ClContext();
  ClContext(const ClContext&) = delete;
  ClContext& operator=(const ClContext&) = delete;

  const ClSymbols& cl;
  const ClDevice device;
  const cl_context context;
  std::atomic<bool> lost{false};  // set once by whoever sees the device fault; relaxed, it only ever tells
 private:
  struct Releaser {  // the context outlives its memory
    const ClSymbols& cl;
    cl_context context;
    ~Releaser() { cl.clReleaseContext(context); }
  } releaser_;

 public:
  OpenClMemory memory;
};

// A text that an OpenCL query gives: `query` is called as clGet...Info are, for (size, value, size_ret).
template <class Query>
std::string cl_text(Query&& query) {
  std::size_t bytes = 0;
  if (query(std::size_t{0}, static_cast<void*>(nullptr), &bytes) != kClSuccess || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (query(bytes, static_cast<void*>(text.data()), static_cast<std::size_t*>(nullptr)) != kClSuccess) return {};
  text.resize(std::string_view(text.c_str()).size());
  return text;
}

}  // namespace slipway::internal
