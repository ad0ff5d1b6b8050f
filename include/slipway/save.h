// Values of the device, shown to the host where they are in a stream: for debugging, logs and checks. In a capture they
// are shown in each replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "slipway/export.h"
#include "slipway/stream.h"

namespace slipway {

struct Saved {
  std::string_view name;
  std::uint64_t count = 0;             // which time it is, from 1; names of files are the function's business
  std::span<const std::byte> bytes{};  // a copy; valid during the call, aligned for any type
};
// A host function: it may not call Slipway, and fails the stream by throwing.
using SaveFunction = std::function<void(const Saved& saved)>;

struct SaveOptions {
  // Do not let the stream wait for the function: in a graph it is called beside what follows, and the step ends behind
  // it. The copy is made in its place in any case. Outside a graph it changes nothing.
  bool beside = false;
};

// Copies `bytes` from the device and calls the function with them. Errors as for copy_to_host and host_function.
SLIPWAY_API void save(const Stream& stream, const std::string& name, DevicePtr from, std::uint64_t bytes,
                      SaveFunction function, const SaveOptions& options = {});

namespace detail {
SLIPWAY_API void print_line(const std::string& line);  // to stdout, in one piece
}

// Prints "name#count: v v v", a line of the first `count` elements.
template <class T>
requires std::is_arithmetic_v<T>
void print(const Stream& stream, const std::string& name, const Tensor<T>& tensor, std::size_t count,
           const SaveOptions& options = {}) {
  const auto show = [](const Saved& saved) {
    std::string line = std::string(saved.name) + "#" + std::to_string(saved.count) + ":";
    const T* values = reinterpret_cast<const T*>(saved.bytes.data());
    for (std::size_t i = 0; i < saved.bytes.size() / sizeof(T); ++i) {
      char text[40];
      if constexpr (std::is_floating_point_v<T>)
        std::snprintf(text, sizeof text, " %g", static_cast<double>(values[i]));
      else std::snprintf(text, sizeof text, " %s", std::to_string(values[i]).c_str());
      line += text;
    }
    detail::print_line(line);
  };
  save(stream, name, tensor.address, count * sizeof(T), show, options);
}

}  // namespace slipway
