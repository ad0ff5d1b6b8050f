// Graphs: work captured once and replayed as one submission, with values that change each step.
//
//   Capture capture(stream);
//   auto position = capture.parameter<std::int32_t>("position");
//   stream.launch(kernel, shape, x, position);            // recorded, not run
//   GraphDefinition definition = capture.end();
//   ExecutableGraph graph = definition.instantiate();
//   StepValues values = graph.values();
//   values.set(position, 7);
//   graph.launch(stream, values);                         // replays, and publishes the values meanwhile
//
// A step is one replay with its values. Steps of one executable run one after another, in the order in which they
// were launched, on whatever streams. Operations that need values wait for them at a gate; everything else of the
// replay runs at once. A step's values belong to it alone: publishing later ones never touches an older step that
// still runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "slipway/argument.h"
#include "slipway/capture_mode.h"
#include "slipway/conditional.h"
#include "slipway/export.h"
#include "slipway/stream.h"

namespace slipway {

namespace internal {
class CaptureImpl;
struct DefinitionImpl;
class ExecutableImpl;
struct GraphAccess;
}  // namespace internal

// A named value of a graph, or an output of an operation: its number, and whose. Passed to a launch where an
// argument stands, it makes that argument take each step's value. Copyable; owns nothing.
struct ParameterRef {
  std::uint32_t number = ~std::uint32_t{0};
  std::uint32_t capture = 0;
  ArgKind kind = ArgKind::kI32;

  operator Argument() const noexcept { return Argument::parameter(number, capture, kind); }
};
template <class T>
struct ScalarParameter : ParameterRef {};

// What an operation computes: arguments of these kinds, or a grid.
struct OutputSpec {
  enum class What : std::uint8_t { kArgument, kGrid, kScratch };
  What what = What::kArgument;
  ArgKind kind = ArgKind::kI32;
  std::uint32_t size_bytes = 0;  // bytes(n, align), scratch(most)
  std::uint32_t align_bytes = 1;

  static OutputSpec argument(ArgKind kind) { return {What::kArgument, kind, 0, 1}; }
  static OutputSpec bytes(std::uint32_t size, std::uint32_t align) {
    return {What::kArgument, ArgKind::kBytes, size, align};
  }
  static OutputSpec grid() { return {What::kGrid, ArgKind::kBytes, 0, 1}; }
  // Device memory of each executable's own, for a tensor argument (output_ref()). It is allocated when the graph is
  // instantiated; what it holds between launches of different operations is not kept.
  static OutputSpec scratch(std::uint32_t most_bytes) { return {What::kScratch, ArgKind::kTensor, most_bytes, 1}; }
};

// What an operation's function sees: its inputs in order, and where its outputs go. Valid during the call only.
class SLIPWAY_API OperationCall {
 public:
  // The type must be that of the parameter; InvalidArgument otherwise.
  template <class T>
  T input(std::size_t index) const {
    T value;
    std::memcpy(&value, input_bytes(index, detail::kind_of<T>(), sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  void set(std::size_t output, const T& value) {
    std::memcpy(output_bytes(output, detail::kind_of<T>(), sizeof(T)), &value, sizeof(T));
  }
  // What this step needs of it: OutOfRange above what was declared; with 0 the argument is the null address.
  void set_scratch(std::size_t output, std::uint64_t bytes);
  void set_grid(std::size_t output, const Extent& grid);  // checked against the device's limits; zeros run nothing

  struct Impl;
  explicit OperationCall(Impl& impl) noexcept : impl_(impl) {}

 private:
  friend struct internal::GraphAccess;
  const std::byte* input_bytes(std::size_t index, ArgKind kind, std::size_t size) const;
  std::byte* output_bytes(std::size_t index, ArgKind kind, std::size_t size);
  Impl& impl_;
};

// A host function that turns values into grids and arguments, run once per step for all launches that use its
// outputs. It refuses values by throwing: the step then stays open, to be published again or cancelled. It is run
// on whatever thread publishes; it may be slow, since the replay runs meanwhile. It may not call Slipway.
using OperationFunction = std::function<void(OperationCall& call)>;

class SLIPWAY_API Operation {
 public:
  template <class T>
  ScalarParameter<T> output(std::size_t index) const {
    return {checked(index, false)};
  }
  ParameterRef output_ref(std::size_t index) const { return checked(index, false); }
  GridParameter grid(std::size_t index) const {
    const ParameterRef ref = checked(index, true);
    return {ref.number, ref.capture};
  }

 private:
  friend class Capture;
  friend struct internal::GraphAccess;
  ParameterRef checked(std::size_t index, bool wants_grid) const;
  std::string name_;
  std::vector<ParameterRef> outputs_;
  std::vector<bool> is_grid_;
};

// What an external operation is called with.
class SLIPWAY_API ExternalCall {
 public:
  // A parameter, or an output of an operation, by its place among the inputs: this step's value.
  template <class T>
  T input(std::size_t index) const {
    T value;
    std::memcpy(&value, input_bytes(index, detail::kind_of<T>(), sizeof(T)), sizeof(T));
    return value;
  }
  // The queue to launch on, where the device has one (OpenCL: a cl_command_queue); else null.
  void* native_stream() const noexcept;

  struct Impl;
  explicit ExternalCall(const Impl& impl) noexcept : impl_(impl) {}

 private:
  const std::byte* input_bytes(std::size_t index, ArgKind kind, std::size_t size) const;
  const Impl& impl_;
};
using ExternalFunction = std::function<void(ExternalCall& call)>;

class GraphDefinition;

// Records what is submitted to a stream, instead of running it, until end(). A stream that waits for an event that
// was marked inside the capture joins it, and must be joined back before end(). For one thread at a time; unless it is
// relaxed, end() is for the thread that began it. Its mode says who may wait for the device's work meanwhile
// (capture_mode.h). Several captures may be open at once, on different streams.
//
// What a capture cannot keep makes it invalid: the call is refused, and so is everything up to end(), with that first
// cause, which end() throws too. docs/graphs.md lists what is refused.
//
// Memory that the thread which began it allocates meanwhile is the graph's as well: it lives as long as the graph.
// Another graph that is launched with values on a captured stream becomes a part of this one, work and all: its
// parameters are then this graph's, named GRAPH/NAME (GraphDefinition::parameter), and start with those values.
//
// Other memory is only watched: once it is freed, launches are refused with StaleAddress. Addresses that are not from
// Slipway cannot be watched; dump() lists them.
class SLIPWAY_API Capture {
 public:
  explicit Capture(const Stream& stream, std::string name = "graph", CaptureMode mode = CaptureMode::kThreadLocal);
  ~Capture();  // abandons the capture when end() was not called: the streams work as before
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Names are unique within a graph. `initial` is the value until the first one is published.
  template <class T>
  ScalarParameter<T> parameter(const std::string& name, T initial = T{}) {
    if constexpr (detail::kind_of<T>() == ArgKind::kBytes) {
      return {make_parameter(name, ArgKind::kBytes, Argument::bytes_of(initial))};
    } else {
      return {make_parameter(name, detail::kind_of<T>(), Argument(initial))};
    }
  }

  // An operation of these inputs (parameters, or outputs of earlier operations). It is run once now, with the
  // initial values, so that what is captured has values too.
  Operation operation(const std::string& name, std::initializer_list<ParameterRef> inputs,
                      std::initializer_list<OutputSpec> outputs, OperationFunction function) {
    return make_operation(name, {inputs.begin(), inputs.size()}, {outputs.begin(), outputs.size()},
                          std::move(function));
  }

  // The same operation on other inputs of the same types, with outputs and a gate of its own. In a step where an
  // earlier application had equal inputs, its outputs are taken over and the function is not called.
  Operation apply(const Operation& operation, std::initializer_list<ParameterRef> inputs) {
    return apply_again(operation, {inputs.begin(), inputs.size()});
  }

  // Work that launches by itself, such as another library's operator: called in each replay, in its place on the
  // stream, when all before it has run and its inputs' values are there; what follows waits for it and for what it
  // launched on the native stream. Not called while capturing. Runs like a host function: on a thread of its own, it
  // may not call Slipway, and it fails the stream by throwing.
  void external(const Stream& stream, const std::string& name, std::initializer_list<ParameterRef> inputs,
                ExternalFunction function) {
    add_external(stream, name, {inputs.begin(), inputs.size()}, std::move(function), false);
  }
  // The same of the function that was registered under this name (command.h).
  void external(const Stream& stream, const std::string& name, std::initializer_list<ParameterRef> inputs) {
    add_external(stream, name, {inputs.begin(), inputs.size()}, nullptr, true);
  }

  // The opaque command that was registered under this name (command.h), with bytes of its own, which are copied now:
  // called in each replay, as external operations are. InvalidArgument when there is none, naming those there are.
  void opaque(const Stream& stream, const std::string& name, std::span<const std::byte> payload = {});
  template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, std::span<const std::byte>>) void opaque(
      const Stream& stream, const std::string& name, const T& payload) {
    opaque(stream, name, std::as_bytes(std::span(&payload, 1)));
  }

  // Conditional nodes: a body's work is captured, and a replay runs it or not. Bodies may have parameters, operations,
  // external operations, other graphs and conditional nodes inside, 16 deep; a body that a step does not take waits for
  // no values. Inside a body only the node's own stream takes work, and events are neither marked nor waited for. A
  // body without work is refused, and when a body throws, the capture is invalid. InvalidArgument for a condition that
  // is null, not aligned, in no memory of the device or of another type.
  void if_node(const Stream& stream, const Condition& condition, const GraphBody& body);
  void if_else_node(const Stream& stream, const Condition& condition, const GraphBody& body,
                    const GraphBody& otherwise);
  // Runs the body for as long as the condition is not zero. One turn more than `most_turns` in a step fails the step
  // with Timeout; cancelling the step ends the loop, at the latest behind the turn that it is at.
  void while_node(const Stream& stream, const Condition& condition, const GraphBody& body,
                  std::uint64_t most_turns = kDefaultMostTurns);
  // Runs the body whose number the condition is, and none where there is no such body. Null bodies do nothing.
  void switch_node(const Stream& stream, const Condition& condition, const std::vector<GraphBody>& bodies);

  // Ends the capture. Throws what made it invalid, or FailedPrecondition when a stream was not joined back; the streams
  // then work as before too. On a wrong thread it is refused, and the capture stays open.
  GraphDefinition end();

 private:
  friend struct internal::GraphAccess;
  ParameterRef make_parameter(const std::string& name, ArgKind kind, const Argument& initial);
  Operation make_operation(const std::string& name, std::span<const ParameterRef> inputs,
                           std::span<const OutputSpec> outputs, OperationFunction function);
  void add_external(const Stream& stream, const std::string& name, std::span<const ParameterRef> inputs,
                    ExternalFunction function, bool is_registered);
  internal::StreamImpl& captured(const Stream& stream, const char* what, const std::string& name) const;
  Operation apply_again(const Operation& operation, std::span<const ParameterRef> inputs);
  std::shared_ptr<internal::CaptureImpl> conditional_on(const Stream& stream, const char* kind);
  std::shared_ptr<internal::CaptureImpl> impl_;
};

enum class CaptureState : std::uint8_t { kNone, kActive, kInvalid };
// Whether the stream is captured. Any thread; also the answer of a stream that joined a capture.
SLIPWAY_API CaptureState capture_state(const Stream& stream);

// One step's values: a small block of bytes, made by ExecutableGraph::values(). Values that are not set again keep
// what they were. Copyable; one thread at a time.
class SLIPWAY_API StepValues {
 public:
  template <class T>
  void set(const ScalarParameter<T>& parameter, T value) {
    std::memcpy(place(parameter, sizeof(T)), &value, sizeof(T));
  }

 private:
  friend class internal::ExecutableImpl;
  friend struct internal::GraphAccess;
  std::byte* place(const ParameterRef& parameter, std::size_t size);
  [[noreturn]] void refuse(const ParameterRef& parameter) const;
  std::shared_ptr<const internal::DefinitionImpl> definition_;
  std::vector<std::byte> bytes_;
};

struct Step {
  std::uint64_t number = 0;  // from 1
};

enum class Order : std::uint8_t {
  kAuto,         // the replay first, and its values while it runs; the values first where launches block
  kUpdateFirst,  // always the values first
};

// How a value reaches work that was submitted before it was known.
enum class Tier : std::uint8_t {
  kAuto,      // the first of the following that the device has
  kReadLate,  // read when the work that needs it runs (cpu, null)
  kCut,       // fixed when the work is handed to the device: the replay is cut at its gates, what lies before a gate
              // is submitted at once and what lies behind it when it is published (all devices)
};

struct InstantiateOptions {
  unsigned depth = 2;  // steps whose values are held at once, 1 to 8
  Order order = Order::kAuto;
  Tier tier = Tier::kAuto;  // Unsupported where the device does not have it
  bool serial = false;   // one branch of a fork after the other, on the replay's own stream, also with several workers
  bool updater = false;  // publish on a thread of the executable's own instead of the one that launches
  // A step that is not published for so long is cancelled, at most a quarter of it or 2 ms later; 0: the wait limit.
  // Where values are work of the device (resettable gates) nobody is waited for: a wait for a step that stands still
  // ends with its own limit.
  std::chrono::milliseconds watchdog{0};
};

enum class Publisher : std::uint8_t {
  kThisThread,  // it will call publish(): waits of its own that would need the step are refused (WouldDeadlock)
  kOtherThread,
};

// What an executable did. Any thread.
struct GraphCounters {
  std::uint64_t launches = 0;
  std::uint64_t replay_first = 0;  // values were published while the replay was already submitted
  std::uint64_t update_first = 0;  // nothing of the step ran before its values were there, as in blocking mode
  std::uint64_t published = 0;
  std::uint64_t operation_calls = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t unchanged = 0;  // where updates are work of the device: steps that had the last one's values, for which
                                // only the gates were set
  std::uint64_t rebinds = 0;
};

// A graph with values. A shared handle; dropping the last one cancels steps that were never published and waits for
// nothing. Any thread may launch, publish and cancel.
class SLIPWAY_API ExecutableGraph {
 public:
  ExecutableGraph() noexcept = default;
  explicit ExecutableGraph(std::shared_ptr<internal::ExecutableImpl> impl) noexcept : impl_(std::move(impl)) {}

  // The initial values, to be changed and passed to launch or publish.
  StepValues values() const;

  // One step as one call: the replay is submitted first and the values are published while it runs, except in
  // blocking mode. When an operation refuses the values, its error is thrown with submitted() true and the step
  // stays open: publish it again, or cancel it. Where the values come first, submitted() is false and no step is left.
  Step launch(const Stream& stream, const StepValues& values) const;

  // The same in two parts: the replay runs up to its first gate and waits there for publish(). Unsupported on devices
  // with resettable gates, which take a replay and its values together. In blocking mode nothing of the step runs
  // before publish(), which then waits for it, unless it stands behind another step that is still open; what this
  // thread would wait for meanwhile (work behind the step, another launch of the graph) is refused: WouldDeadlock.
  Step launch_open(const Stream& stream, Publisher publisher = Publisher::kThisThread) const;
  void publish(Step step, const StepValues& values) const;

  // A graph without parameters needs no values.
  Step launch(const Stream& stream) const;

  // Cancels a step and those behind it: the rest of it is skipped and its stream fails with a Cancelled error.
  void cancel(Step step, const std::string& why) const;
  // After a failure or cancellation: waits for the cancelled steps to pass (Busy when they do not within the device's
  // limit), recovers the streams that the steps ran on, then the graph. Later steps run with the values that they are
  // given.
  void recover() const;

  // Memory that the graph refers to is elsewhere from now on: what lay in [from, from + bytes) lies at `to`, as far in,
  // for all nodes of this executable (arguments, both sides of copies, fills, conditions) and for the values that
  // values() begins with. Steps that were launched run with the old addresses: it waits for them, within `limit`. `to`
  // must be memory of the device with room for all of it, and is watched as the old was, which may have been freed
  // already: StaleAddress ends with this. Where something else lies in its place by now, what was freed is meant. Other
  // executables, and values that were set, stay as they are. InvalidArgument when no node refers to it; nothing changes
  // when it throws. Not from the thread that owes a step.
  void rebind(DevicePtr from, std::uint64_t bytes, DevicePtr to, WaitLimit limit = kDefaultWaitLimit) const;
  void rebind(const Memory& from, const Memory& to, WaitLimit limit = kDefaultWaitLimit) const {
    rebind(from.address(), from.size_bytes(), to.address(), limit);
  }

  // Waits until a step has run (or was skipped).
  void wait(Step step, WaitLimit limit = kDefaultWaitLimit) const;
  bool passed(Step step) const;

  Tier tier() const;       // the one in use, never kAuto
  unsigned depth() const;  // likewise: 1 on devices with resettable gates
  GraphCounters counters() const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::ExecutableImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::ExecutableImpl> impl_;
};

// What one executable takes. Bytes of the host, unless they are said to be the device's.
struct GraphBudget {
  std::uint64_t tape_bytes = 0;     // the tapes that replays walk
  std::uint64_t block_bytes = 0;    // the values of the steps that are held
  std::uint64_t scratch_bytes = 0;  // of the device: for outputs of operations
  std::uint64_t memory_bytes = 0;   // of the device: allocated while capturing, shared by all executables
  unsigned streams = 0;             // beside the one that it is launched on
  unsigned gates = 0;
};

// The structure of a graph: immutable, shared. Several executables of one definition are independent.
class SLIPWAY_API GraphDefinition {
 public:
  GraphDefinition() noexcept = default;
  explicit GraphDefinition(std::shared_ptr<const internal::DefinitionImpl> impl) noexcept : impl_(std::move(impl)) {}

  ExecutableGraph instantiate(const InstantiateOptions& options = {}) const;

  // A parameter by its name. InvalidArgument when there is none of this name and type.
  template <class T>
  ScalarParameter<T> parameter(const std::string& name) const {
    return {find_parameter(name, detail::kind_of<T>(), sizeof(T))};
  }

  // What an executable of these options will take, before it is made. Throws what instantiate() would, and OutOfMemory
  // when the device does not have it.
  GraphBudget budget(const InstantiateOptions& options = {}) const;

  std::size_t node_count() const;
  std::uint64_t tape_bytes() const;

  enum class Format : std::uint8_t { kText, kJson, kGraphviz };
  std::string dump(Format format = Format::kText) const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<const internal::DefinitionImpl>& impl() const noexcept { return impl_; }

 private:
  ParameterRef find_parameter(const std::string& name, ArgKind kind, std::size_t size) const;
  std::shared_ptr<const internal::DefinitionImpl> impl_;
};

}  // namespace slipway
