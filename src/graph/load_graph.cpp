// Reads a graph from JSON, by capturing it again.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "device/handles.h"
#include "graph/definition.h"
#include "graph/graph_access.h"
#include "graph/json_reader.h"
#include "graph/load_kernels.h"
#include "record/layout.h"
#include "slipway/command.h"
#include "slipway/saved_graph.h"

namespace slipway {
namespace internal {
namespace {

constexpr std::size_t kMostStreams = 64;
constexpr std::size_t kMostKernels = 1 << 16;
constexpr std::size_t kMostBodies = 1 << 12;
constexpr std::size_t kMostBlocks = 1 << 20;
constexpr std::size_t kMostPayload = 1 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;  // of one block: anything that adds up without overflow

class GraphReader {
 public:
  GraphReader(const Device& device, const JsonValue& root, const LoadOptions& options)
      : device_(device), info_(device.info()), root_(root), options_(options) {}

  LoadedGraph read() {
    check_format();
    loaded_.made_by = root_.member("made_by").text();
    loaded_.device = root_.member("device").text();
    const std::vector<JsonValue>& names = root_.member("streams").items(kMostStreams);
    if (names.empty()) root_.member("streams").fail("a graph has at least one stream");
    check_memory();
    for (const JsonValue& name : names) streams_.push_back(device_.create_stream({0, 256 << 10, name.text()}));
    find_kernels();
    Capture capture(streams_.front(), root_.member("name").text());
    capture_ = &capture;
    make_memory();
    for (const JsonValue& parameter : root_.member("parameters").items()) declare(parameter);
    for (const JsonValue& operation : root_.member("operations").items())
      during("operation", operations_.size(), [&] { declare_operation(operation); });
    submit_all(root_.member("nodes"));
    loaded_.definition = capture.end();
    for (auto& block : host_memory_) {
      loaded_.definition.impl()->resources->staging.push_back(block.release());
    }
    fill_memory();
    return std::move(loaded_);
  }

 private:
  void check_format() const {
    const std::int64_t format = root_.member("slipway_graph").integer(1, INT32_MAX);
    if (format <= kSavedGraphFormat) return;
    throw Error(ErrorCode::kUnsupported, "the saved graph is of format " + std::to_string(format) + ", made by '" +
                                             root_.member("made_by").text() +
                                             "', and this library reads formats up to " +
                                             std::to_string(kSavedGraphFormat) + "; read it with a newer one");
  }

  // What a part of the file makes the front door refuse is told with its place.
  template <class Call>
  static void during(const char* what, std::size_t index, Call&& call) {
    try {
      call();
    } catch (const Error& error) {
      if (!error.details() || error.details()->sentence.rfind("the saved graph cannot", 0) == 0) throw;
      throw Error(error.code(), std::string("the saved graph cannot be loaded at ") + what + " " +
                                    std::to_string(index) + ": " + error.details()->sentence);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // of an operation that refuses its values
      throw Error(ErrorCode::kInvalidArgument, std::string("the saved graph cannot be loaded at ") + what + " " +
                                                   std::to_string(index) + ": " + error.what());
    }
  }

  // --- Memory ---

  void check_memory() {
    std::uint64_t sum = 0;
    std::size_t index = 0;
    for (const JsonValue& block : root_.member("memory").items(kMostBlocks)) {
      const auto bytes = static_cast<std::uint64_t>(block.member("bytes").integer(1, kMostBytes));
      const Memory given = index < options_.memory.size() ? options_.memory[index] : Memory();
      loaded_.memory.push_back(given);
      sizes_.push_back(bytes);
      if (given && given.size_bytes() < bytes) {
        throw Error(ErrorCode::kOutOfRange, "block " + std::to_string(index) + " of the saved graph has " +
                                                std::to_string(bytes) + " bytes and was given memory of " +
                                                std::to_string(given.size_bytes()) + "; give at least as much");
      }
      if (given) check_same_device(*given.impl()->device, *device_.impl(), "the memory");
      if (!given && sum <= options_.max_memory_bytes) sum += bytes;  // no sum that wraps around
      ++index;
    }
    if (sum <= options_.max_memory_bytes) return;
    throw Error(ErrorCode::kOutOfMemory, "the saved graph needs " + std::to_string(sum) +
                                             " bytes of memory, and LoadOptions::max_memory_bytes allows " +
                                             std::to_string(options_.max_memory_bytes) +
                                             "; allow more, or give memory");
  }
  void make_memory() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (!loaded_.memory[i]) loaded_.memory[i] = device_.allocate(sizes_[i]);  // while capturing: the graph's
    }
  }
  void fill_memory() const {
    const std::vector<JsonValue>& blocks = root_.member("memory").items();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const JsonValue* contents = blocks[i].find("contents");
      if (!contents) continue;
      const std::vector<std::byte> bytes = contents->bytes(sizes_[i], sizes_[i]);
      streams_.front().copy_to_device(loaded_.memory[i].address(), bytes.data(), bytes.size());
    }
    streams_.front().synchronize();
  }

  DevicePtr address(const JsonValue& value) {
    if (value.kind() == JsonValue::Kind::kNull) return kNullDevicePtr;
    if (const JsonValue* block = value.find("block")) {
      const std::size_t index = block->index(loaded_.memory.size());
      const auto inside = static_cast<std::uint64_t>(value.member("offset").integer(0, kMostBytes));
      if (inside >= sizes_[index])
        value.fail("the offset " + std::to_string(inside) + " lies outside of a block of " +
                   std::to_string(sizes_[index]) + " bytes");
      return offset(loaded_.memory[index].address(), inside);
    }
    const std::string& digits = value.member("address").text();
    std::uint64_t old = 0;
    const auto [end, error] = std::from_chars(digits.data() + std::min<std::size_t>(2, digits.size()),
                                              digits.data() + digits.size(), old, 16);
    if (digits.rfind("0x", 0) != 0 || error != std::errc{} || end != digits.data() + digits.size())
      value.fail("expected an address as 0x and hexadecimal digits");
    for (const auto& [from, to] : options_.addresses) {
      if (from == old) return to;
    }
    if (!info_.runs_kernels) return DevicePtr{old};
    throw Error(ErrorCode::kInvalidArgument,
                "the saved graph refers to memory at " + digits +
                    " that Slipway did not know when it was captured; say where it lies now with "
                    "LoadOptions::addresses, or load it on the null device");
  }

  // --- Kernels ---

  void find_kernels() {
    const std::vector<JsonValue>& kernels = root_.member("kernels").items(kMostKernels);
    std::vector<Signature> signatures;
    for (const JsonValue& kernel : kernels) {
      const std::string& text = kernel.member("signature").text();
      try {
        signatures.push_back(parse_signature(text));
      } catch (const Error& error) {
        kernel.fail(error.details()->sentence);
      }
    }
    std::vector<Module> modules = options_.modules;
    if (!info_.runs_kernels) modules.push_back(any_kernels(device_, kernels, signatures));
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      during("kernel", i,
             [&] { kernels_.push_back(find_kernel(modules, kernels[i].member("name").text(), signatures[i])); });
    }
  }
  // --- Values ---

  static ArgKind kind_of(const JsonValue& value) {
    try {
      const Signature signature = parse_signature(value.text() == "bytes" ? "bytes(1)" : value.text());
      if (signature.size() == 1 && name_of(signature.front().kind) == value.text()) return signature.front().kind;
    } catch (const Error&) {
    }
    value.fail("'" + value.text() + "' is no kind of an argument");
  }

  struct Value {
    Parameter parameter;
    std::vector<std::byte> bytes;
    Argument argument() const { return unpack_argument(parameter, bytes.data()); }
  };
  Value read_value(const JsonValue& value, Parameter p) {
    if (p.kind == ArgKind::kTensor) {
      const auto at = static_cast<std::uint64_t>(address(value));
      Value read{p, std::vector<std::byte>(sizeof at)};
      std::memcpy(read.bytes.data(), &at, sizeof at);
      return read;
    }
    const bool open = p.kind == ArgKind::kBytes && p.size_bytes == 0;
    const std::size_t size = open ? 0 : size_of(p, kNaturalAbi);
    Value read{p, value.bytes(open ? 1 : size, open ? kMaxBytesParameter : size)};
    if (open) read.parameter.size_bytes = static_cast<std::uint32_t>(read.bytes.size());
    if (p.kind == ArgKind::kBool && std::to_integer<unsigned>(read.bytes.front()) > 1) value.fail("a bool is 00 or 01");
    return read;
  }

  void declare(const JsonValue& parameter) {
    Parameter p;
    p.kind = kind_of(parameter.member("kind"));
    const Value value = read_value(parameter.member("value"), p);
    if (const JsonValue* random = parameter.find("random"); random && random->boolean())
      loaded_.notes.push_back("the random numbers '" + parameter.member("name").text() +
                              "' are those of the file in every step");
    during("parameter", variables_.size(), [&] {
      variables_.push_back(
          {GraphAccess::parameter(*capture_, parameter.member("name").text(), p.kind, value.argument()), false});
    });
  }

  struct Declared {
    ParameterRef ref;
    bool is_grid = false;
  };
  const Declared& variable(const JsonValue& number) const { return variables_[number.index(variables_.size())]; }
  std::vector<ParameterRef> refs(const JsonValue& numbers) const {
    std::vector<ParameterRef> refs;
    for (const JsonValue& number : numbers.items()) refs.push_back(variable(number).ref);
    return refs;
  }

  struct Output {
    OutputSpec spec;
    Value value;
  };
  Output read_output(const JsonValue& output) {
    const std::string& what = output.member("what").text();
    if (what == "scratch")
      return {OutputSpec::scratch(static_cast<std::uint32_t>(output.member("bytes").integer(1, UINT32_MAX))), {}};
    Parameter p;
    p.kind = ArgKind::kBytes;
    if (what == "grid") {
      p.size_bytes = sizeof(Dim3);
      return {OutputSpec::grid(), read_value(output.member("value"), p)};
    }
    if (what != "argument") output.fail("'" + what + "' is no output; outputs are argument, grid and scratch");
    p.kind = kind_of(output.member("kind"));
    Output read{OutputSpec::argument(p.kind), read_value(output.member("value"), p)};
    if (p.kind == ArgKind::kBytes) read.spec = OutputSpec::bytes(read.value.parameter.size_bytes, 1);
    return read;
  }

  // An operation that gives what it gave when it was saved.
  static OperationFunction stand_in(std::vector<Output> outputs) {
    return [outputs = std::move(outputs)](OperationCall& call) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto& [spec, value] = outputs[i];
        if (spec.what == OutputSpec::What::kScratch) {
          call.set_scratch(i, spec.size_bytes);
        } else if (spec.what == OutputSpec::What::kGrid) {
          Dim3 grid;
          std::memcpy(&grid, value.bytes.data(), sizeof grid);
          call.set_grid(i, {grid.x, grid.y, grid.z});
        } else {
          std::memcpy(GraphAccess::output_bytes(call, i, spec.kind, value.bytes.size()), value.bytes.data(),
                      value.bytes.size());
        }
      }
    };
  }

  void declare_operation(const JsonValue& operation) {
    const std::string& name = operation.member("name").text();
    const std::vector<ParameterRef> inputs = refs(operation.member("inputs"));
    std::vector<Output> outputs;
    std::vector<OutputSpec> specs;
    for (const JsonValue& output : operation.member("outputs").items()) {
      outputs.push_back(read_output(output));
      specs.push_back(outputs.back().spec);
    }
    const OperationHandler* handler = options_.operations ? options_.operations->find(name) : nullptr;
    const JsonValue* same = operation.find("same_as");
    if (same) (void)same->index(operations_.size());
    if (same && handler) {
      operations_.push_back(GraphAccess::apply(*capture_, operations_[same->index(operations_.size())], inputs));
    } else {  // what stands in for the same operation gives something else in each place
      if (!handler && !same) require_stand_in("operation", name);
      operations_.push_back(GraphAccess::operation(*capture_, name, inputs, specs,
                                                   handler ? handler->update : stand_in(std::move(outputs))));
    }
    for (std::size_t i = 0; i < specs.size(); ++i)
      variables_.push_back({GraphAccess::output(operations_.back(), i), specs[i].what == OutputSpec::What::kGrid});
  }

  void require_stand_in(const char* what, const std::string& name) {
    if (!options_.stand_ins) {
      throw Error(ErrorCode::kInvalidArgument, std::string("the ") + what + " '" + name +
                                                   "' is not registered; register it in LoadOptions::operations, or "
                                                   "allow LoadOptions::stand_ins");
    }
    loaded_.notes.push_back(std::string("the ") + what + " '" + name +
                            "' is not registered: something stands in for it");
  }

  // --- Nodes ---

  // A body's nodes are counted within it.
  void submit_all(const JsonValue& nodes) {
    std::size_t index = 0;
    for (const JsonValue& node : nodes.items()) during("node", index++, [&] { submit(node); });
  }
  void conditional(const JsonValue& node, const Stream& stream) {
    const auto is_named = [&type = node.member("type").text()](DType dtype) { return type == name_of(dtype); };
    const auto dtype = std::find_if(std::begin(kConditionTypes), std::end(kConditionTypes), is_named);
    if (dtype == std::end(kConditionTypes)) node.fail("a condition is a bool, i32 or u32");
    const Condition condition(address(node.member("condition")), *dtype);
    std::vector<GraphBody> bodies;
    for (const JsonValue& body : node.member("bodies").items(kMostBodies)) {
      if (body.items().empty()) bodies.emplace_back();
      else bodies.emplace_back([this, &body](const Stream&) { submit_all(body); });
    }
    const std::string& kind = node.member("kind").text();
    if (kind == "switch") return capture_->switch_node(stream, condition, bodies);
    if (bodies.empty() || bodies.size() > (kind == "if" ? 2 : 1)) node.fail("this kind has another number of bodies");
    if (kind == "while") {
      const std::int64_t turns = node.member("most_turns").integer(1, INT64_MAX);
      return capture_->while_node(stream, condition, bodies.front(), static_cast<std::uint64_t>(turns));
    }
    if (bodies.size() == 1) return capture_->if_node(stream, condition, bodies.front());
    capture_->if_else_node(stream, condition, bodies.front(), bodies.back());
  }
  void submit(const JsonValue& node) {
    const Stream& stream = streams_[node.member("stream").index(streams_.size())];
    const std::string& kind = node.member("kind").text();
    for (const Row& row : kRows) {
      if (kind != row.name) continue;
      // On a stream that has not joined, work would run now.
      if (!stream.impl()->capture() && row.read != &GraphReader::wait)
        node.fail("work comes on a stream that has not joined the capture; a wait for a mark comes first");
      return (this->*row.read)(node, stream);
    }
    node.fail("'" + kind + "' is no kind of node that this library knows");
  }

  static Extent extent(const JsonValue* value, Extent otherwise) {
    if (!value) return otherwise;
    const std::vector<JsonValue>& items = value->items(3);
    if (items.size() != 3) value->fail("an extent has three numbers");
    const auto number = [&](std::size_t i) { return items[i].integer(0, UINT32_MAX); };
    return {number(0), number(1), number(2)};
  }

  void launch(const JsonValue& node, const Stream& stream) {
    const Kernel& kernel = kernels_[node.member("kernel").index(kernels_.size())];
    LaunchShape shape;
    shape.grid = extent(node.find("grid"), shape.grid);
    shape.block = extent(node.find("block"), {1, 1, 1});
    if (const JsonValue* shared = node.find("shared_bytes")) shape.shared_bytes = shared->integer(0, UINT32_MAX);
    if (const JsonValue* spread = node.find("spread")) shape.spread = spread->boolean();
    if (const JsonValue* from = node.find("grid_from")) {
      const Declared& grid = variable(*from);
      if (!grid.is_grid) from->fail("this variable is no grid");
      shape.grid_from = {grid.ref.number, grid.ref.capture};
    }
    const JsonValue& list = node.member("arguments");
    const Signature& signature = kernel.signature();
    if (list.items().size() != signature.size()) {
      list.fail("kernel '" + kernel.name() + "' takes " + std::to_string(signature.size()) + " arguments, found " +
                std::to_string(list.items().size()));
    }
    std::vector<Value> values(signature.size());  // bytes are referred to
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < signature.size(); ++i) {
      const JsonValue& item = list.items()[i];
      if (const JsonValue* from = item.find("variable")) {
        arguments.emplace_back(variable(*from).ref);
      } else {
        values[i] = read_value(item, signature[i]);
        arguments.push_back(values[i].argument());
      }
    }
    stream.launch_arguments(kernel, shape, arguments);
  }

  void copy(const JsonValue& node, const Stream& stream) {
    const auto bytes = static_cast<std::uint64_t>(node.member("bytes").integer(1, kMostBytes));
    const JsonValue *to = node.find("to"), *from = node.find("from"), *contents = node.find("contents");
    if (to && contents) {
      const std::vector<std::byte> source = contents->bytes(bytes, bytes);
      stream.copy_to_device(address(*to), source.data(), bytes);
    } else if (to && from) {
      stream.copy(address(*to), address(*from), bytes);
    } else if (from) {
      const DevicePtr source = address(*from);
      device_.impl()
          ->addresses()
          .check_range("the source", static_cast<std::uint64_t>(source), bytes, true)
          .throw_if_error();  // before as much is allocated
      host_memory_.emplace_back(std::malloc(bytes));
      if (!host_memory_.back()) throw std::bad_alloc();
      stream.copy_to_host(host_memory_.back().get(), source, bytes);
    } else {
      node.fail("a copy has 'to' and 'from', 'to' and 'contents', or 'from'");
    }
  }

  void fill(const JsonValue& node, const Stream& stream) {
    const std::vector<std::byte> bytes = node.member("pattern").bytes(1, 8);
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, bytes.data(), bytes.size());
    stream.fill(address(node.member("to")), pattern, static_cast<std::uint32_t>(bytes.size()),
                static_cast<std::uint64_t>(node.member("count").integer(1, kMostBytes)));
  }

  // A host function has a name and nothing else, an external operation inputs, an opaque command its bytes. Commands
  // are known to the registry or to the process.
  void host_function(const JsonValue& node, const Stream& stream) {
    const std::string& name = node.member("name").text();
    const auto is_registered = [&] {
      const std::vector<std::string> names = registered_commands();
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (const JsonValue* payload = node.find("payload")) {
      const std::vector<std::byte> bytes = payload->bytes(0, kMostPayload);
      if (is_registered()) return capture_->opaque(stream, name, bytes);
      require_stand_in("opaque command", name);
      return stream.host_function([] {}, name);
    }
    const JsonValue* inputs = node.find("inputs");
    if (!inputs) {
      require_stand_in("host function", name);
      return stream.host_function([] {}, name);
    }
    ExternalFunction function;
    if (const ExternalFunction* known = options_.operations ? options_.operations->find_external(name) : nullptr) {
      function = *known;
    } else if (!is_registered()) {
      require_stand_in("external operation", name);
      function = [](ExternalCall&) {};
    }
    GraphAccess::external(*capture_, stream, name, refs(*inputs), std::move(function));
  }

  void mark(const JsonValue& node, const Stream& stream) {
    const auto [number, is_new] = events_.try_emplace(node.member("mark").integer(0, INT32_MAX));
    if (!is_new) node.fail("this mark was there before");
    number->second = device_.create_event();
    stream.mark(number->second);
  }
  void wait(const JsonValue& node, const Stream& stream) {
    const auto marked = events_.find(node.member("mark").integer(0, INT32_MAX));
    if (marked == events_.end()) node.fail("a wait for a mark that does not stand before it");
    stream.wait(marked->second);
  }

  struct Row {
    const char* name;
    void (GraphReader::*read)(const JsonValue& node, const Stream& stream);
  };
  static const Row kRows[9];

  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  const Device& device_;
  const DeviceInfo& info_;
  const JsonValue& root_;
  const LoadOptions& options_;
  LoadedGraph loaded_;
  std::vector<std::uint64_t> sizes_;  // of the blocks, in the file
  std::vector<Stream> streams_;
  std::vector<Kernel> kernels_;
  Capture* capture_ = nullptr;
  std::vector<Declared> variables_;
  std::vector<Operation> operations_;
  std::map<std::int64_t, Event> events_;
  std::vector<std::unique_ptr<void, Free>> host_memory_;  // that the graph copies to
};

const GraphReader::Row GraphReader::kRows[] = {
    {"launch", &GraphReader::launch},      {"copy", &GraphReader::copy},         {"fill", &GraphReader::fill},
    {"host", &GraphReader::host_function}, {"mark", &GraphReader::mark},         {"wait", &GraphReader::wait},
    {"if", &GraphReader::conditional},     {"while", &GraphReader::conditional}, {"switch", &GraphReader::conditional},
};

}  // namespace
}  // namespace internal

LoadedGraph load_graph(const Device& device, std::string_view text, const LoadOptions& options) {
  (void)internal::deref(device, "the device");
  const internal::JsonDocument document("the saved graph", text);
  return internal::GraphReader(device, document.root(), options).read();
}

}  // namespace slipway
