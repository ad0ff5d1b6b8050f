// Any text as a saved graph: it is refused with an Error, or what was read is written, read again and written the same,
// and can be replayed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "slipway/slipway.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipway;
  static const Device device = Device::open("null");
  const LoadOptions options{.stand_ins = true, .max_memory_bytes = 1 << 20};
  std::string first;
  try {
    const LoadedGraph loaded = load_graph(device, {reinterpret_cast<const char*>(data), size}, options);
    first = save_graph(loaded.definition);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
    return 0;
  }
  const LoadedGraph again = load_graph(device, first, options);  // an Error ends the run
  if (save_graph(again.definition) != first) std::abort();
  if (again.definition.tape_bytes() == 0) return 0;
  const Stream stream = device.create_stream();
  try {
    const ExecutableGraph graph = again.definition.instantiate();
    graph.launch(stream, graph.values());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
  }
  stream.synchronize();
  return 0;
}
