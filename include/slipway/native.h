// The native queue of a stream on devices that run in this process (cpu, null): for code that knows nothing of Slipway
// and was handed the stream's native handle. What it puts here takes its place in the stream; while the stream is
// captured, it becomes a node of the graph, and each replay calls it.
#pragma once

namespace slipway {

// Plain data and one function, as another library's C interface would have it. It is Stream::native_handle().
struct NativeQueue {
  // Has `call(data)` run behind all that was submitted, on a thread of its own, and then, once it cannot be called any
  // more, `destroy(data)` if there is such. In a graph that is once per replay, and when the graph is gone. The two
  // may not call Slipway. 0: taken; else nothing was done and `data` stays the caller's. Any thread; the stream's
  // handle must be kept until it returns. It waits for room only, also in blocking mode.
  int (*enqueue)(NativeQueue* queue, void (*call)(void* data), void* data, void (*destroy)(void* data));
};

}  // namespace slipway
