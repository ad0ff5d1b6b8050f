// Any text as a device URI: it is refused with a sentence, or its parts can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/uri.h"
#include "device/driver.h"

using namespace slipway::internal;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto parsed = Uri::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    if (parsed.status().details().sentence.empty()) std::abort();
    return 0;
  }
  const Uri& uri = parsed.value();
  for (const char* name : {"inline", "workers", "affinity", "on", "empty"}) {
    (void)uri.flag(name);
    (void)uri.number(name, 1, 0, 256);
    (void)uri.text(name);
  }
  return 0;
}
