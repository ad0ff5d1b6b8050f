// Conditional nodes of graphs: work that a replay runs once, not at all, or again and again, as a value in device
// memory says when the replay gets there. No host is asked; see Capture::if_node() in graph.h.
#pragma once

#include <cstdint>
#include <functional>

#include "slipway/types.h"

namespace slipway {

class Stream;

// Where a conditional node reads what it goes by: a bool, an i32 or a u32 in device memory, aligned to its size. It is
// read when everything before the node has run, and by a loop again behind each turn. Refers to memory, owns nothing.
struct Condition {
  DevicePtr address = kNullDevicePtr;
  DType dtype = DType::kUnknown;

  Condition(DevicePtr at, DType type) noexcept : address(at), dtype(type) {}
  Condition(TensorArg tensor) noexcept : address(tensor.address), dtype(tensor.dtype) {}
  template <class T>
  Condition(Tensor<T> tensor) noexcept : address(tensor.address), dtype(Tensor<T>::dtype) {}
  template <class T>
  Condition(T* host_pointer) noexcept : address(host_address(host_pointer)), dtype(detail::dtype_of<T>()) {}
};

// Submits the work of a body to the stream that it is given, which is that of the node. It is called once, while the
// node is captured.
using GraphBody = std::function<void(const Stream& stream)>;

// How often the body of a loop runs in a step at most, unless its node says otherwise.
constexpr std::uint64_t kDefaultMostTurns = 1'000'000;

}  // namespace slipway
