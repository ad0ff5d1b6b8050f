// Any text as a signature: it is refused with InvalidArgument, or what it says is read back from its own text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "slipway/error.h"
#include "slipway/signature.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const slipway::Signature signature = slipway::parse_signature({reinterpret_cast<const char*>(data), size});
    if (slipway::parse_signature(slipway::to_string(signature)) != signature) std::abort();
  } catch (const slipway::Error& error) {
    if (error.code() != slipway::ErrorCode::kInvalidArgument) std::abort();
  }
  return 0;
}
