// Graphs as files, and operations by name.
#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

struct Pair {
  std::int32_t a, b;
};
void put_pair(std::int32_t* out, Pair pair, bool swap) {
  out[0] = swap ? pair.b : pair.a;
  out[1] = swap ? pair.a : pair.b;
}
void fill_blocks(const Block& block, std::int32_t* out) {
  out[block.index.x] = static_cast<std::int32_t>(block.grid.x);
}

OperationRegistry registry(int* externals = nullptr) {
  OperationRegistry known;
  known.add("split", {.should_handle = {},
                      .prepare = [](auto) -> std::vector<OutputSpec> {
                        return {OutputSpec::argument(ArgKind::kI32), OutputSpec::grid(), OutputSpec::scratch(64),
                                OutputSpec::bytes(sizeof(Pair), 4)};
                      },
                      .update =
                          [](OperationCall& call) {
                            const auto n = call.input<std::int32_t>(0);
                            call.set(0, n * 10);
                            call.set_grid(1, {n, 1, 1});
                            call.set_scratch(2, 16);
                            call.set(3, Pair{n, n + 1});
                          }});
  known.add_external("notify", [externals](ExternalCall& call) {
    if (externals) *externals += call.input<std::int32_t>(0);
  });
  return known;
}

class Saved : public GraphOn {
 protected:
  Saved() : own(device.load_table({kernel<&put_pair>("put_pair"), kernel<&fill_blocks>("fill_blocks")})) {
    memory = device.allocate(256);
    table = device.allocate(64);
    stream.fill(memory.address(), 3, 4, 64);
    stream.fill(table.address(), 5, 4, 16);
  }
  auto at(std::uint64_t i) const { return memory.tensor<std::int32_t>(i); }

  // One of everything.
  GraphDefinition make() {
    const OperationRegistry known = registry();
    const Stream side = device.create_stream({.name = "side"});
    const Event forked = device.create_event(), joined = device.create_event();
    Capture capture(stream, "all \"of\" it");
    const auto n = capture.parameter<std::int32_t>("n", 2), m = capture.parameter<std::int32_t>("m", 3);
    const auto where =
        capture.parameter<const std::int32_t*>("where", reinterpret_cast<const std::int32_t*>(table.address()));
    const ParameterRef inputs[] = {n};
    const Operation split = known.declare(capture, "split", inputs).value();
    const Operation again = capture.apply(split, {m});
    const float eight = 8;
    std::vector<std::int32_t> large(2000, 11);
    const Memory own_memory = device.allocate(8000);
    stream.copy_to_device(own_memory.address(), large.data(), 8000);
    stream.copy_to_device(offset(memory.address(), 252), &eight, 4);
    stream.mark(forked);
    side.wait(forked);
    side.launch(module.kernel("put"), {}, at(0), split.output<std::int32_t>(0));
    stream.launch(module.kernel("put"), {}, at(1), again.output<std::int32_t>(0));
    side.mark(joined);
    stream.wait(joined);
    stream.launch(own.kernel("put_pair"), {}, at(2), split.output_ref(3), true);
    stream.launch(own.kernel("put_pair"), {}, at(4), Argument::bytes_of(Pair{6, 7}), false);
    stream.launch(own.kernel("fill_blocks"), {.grid = {1}, .grid_from = again.grid(1)}, at(8));
    stream.launch(own.kernel("fill_blocks"), {.grid = {4}, .block = {2, 1, 1}, .shared_bytes = 32, .spread = true},
                  at(12));
    stream.launch(module.kernel("sum"), {}, split.output_ref(2), own_memory.tensor<std::int32_t>(), where);
    stream.launch(module.kernel("sum"), {}, at(16), split.output_ref(2), where);
    stream.fill(offset(memory.address(), 72), 0x0102, 2, 2);
    stream.copy(offset(memory.address(), 80), table.address(), 16);
    stream.copy_to_host(&host, table.address(), 4);
    const ParameterRef told[] = {split.output_ref(0)};
    capture.external(stream, "notify", {told[0]}, *known.find_external("notify"));
    return capture.end();
  }
  std::vector<std::int32_t> contents(const Stream& by, const Memory& of) {
    std::vector<std::int32_t> now(64);
    by.copy_to_host(now.data(), of.address(), 256);
    by.synchronize();
    return now;
  }
  // After one step with n and m.
  std::vector<std::int32_t> run(const GraphDefinition& definition, const Stream& on, const Memory& of) {
    const ExecutableGraph graph = definition.instantiate();
    StepValues values = graph.values();
    values.set(definition.parameter<std::int32_t>("n"), 4);
    values.set(definition.parameter<std::int32_t>("m"), 2);
    graph.launch(on, values);
    return contents(on, of);
  }

  Module own;
  Memory memory, table;
  std::int32_t host = 0;
};

// Which block of the file has this many bytes.
std::size_t block_of(const LoadedGraph& loaded, std::uint64_t bytes) {
  for (std::size_t i = 0; i < loaded.memory.size(); ++i) {
    if (loaded.memory[i].size_bytes() == bytes) return i;
  }
  return 99;
}

TEST_P(Saved, AreReadBackAndDoTheSame) {
  const GraphDefinition definition = make();
  const std::string text = save_graph(definition, stream);
  const auto expected = run(definition, stream, memory);
  EXPECT_EQ(expected[0], 40);
  EXPECT_EQ(expected[1], 20);
  EXPECT_EQ(expected[2], 5);
  EXPECT_EQ(expected[16], 21);
  int externals = 0;
  const OperationRegistry known = registry(&externals);
  for (const char* uri : {"cpu:inline", "cpu:workers=2"}) {
    const Device other = Device::open(uri);
    const Module kernels = load(other),
                 more = other.load_table({kernel<&put_pair>("put_pair"), kernel<&fill_blocks>("fill_blocks")});
    const LoadedGraph loaded = load_graph(other, text, {.modules = {kernels, more}, .operations = &known});
    EXPECT_EQ(loaded.made_by, std::string("slipway ") + runtime_version_string());
    EXPECT_EQ(loaded.device, GetParam());
    EXPECT_TRUE(loaded.notes.empty());
    EXPECT_EQ(loaded.definition.node_count(), definition.node_count());
    externals = 0;
    EXPECT_EQ(run(loaded.definition, other.create_stream(), loaded.memory[block_of(loaded, 256)]), expected);
    EXPECT_EQ(externals, 40);
  }
  // what is written again is what was read
  const LoadedGraph loaded =
      load_graph(device, save_graph(definition), {.modules = {module, own}, .operations = &known});
  EXPECT_EQ(save_graph(loaded.definition), save_graph(definition));
}

void count_down(std::int32_t* x) { --*x; }
void bump(std::int32_t* x, std::int32_t by) { *x += by; }

// Conditions in `table`; results in `memory`.
GraphDefinition with_conditions(const Stream& stream, const Module& kernels, const Memory& conditions,
                                const Memory& results) {
  const auto condition = [&](std::uint64_t i) { return conditions.tensor<std::int32_t>(i); };
  const auto result = [&](std::uint64_t i) { return results.tensor<std::int32_t>(i); };
  Capture capture(stream, "ways");
  const auto n = capture.parameter<std::int32_t>("n", 2);
  const auto adds = [&](std::uint64_t i) {
    return [&, i](const Stream& body) { body.launch(kernels.kernel("bump"), {}, result(i), n); };
  };
  capture.while_node(
      stream, condition(0),
      [&](const Stream& body) {
        capture.if_else_node(body, condition(1), adds(0), adds(1));
        body.launch(kernels.kernel("count_down"), {}, condition(0));
      },
      100);
  capture.if_node(stream, condition(2), adds(2));
  capture.switch_node(stream, Condition(condition(3).address, DType::kU32), {adds(3), nullptr, adds(4)});
  return capture.end();
}

TEST_P(Saved, ConditionalNodesAreReadBack) {
  const auto run = [](const GraphDefinition& definition, const Stream& on, const Memory& conditions,
                      const Memory& results) {
    const std::vector<std::int32_t> first{5, 0, 1, 2};
    on.copy_to_device(conditions.address(), first.data(), 16);
    on.fill(results.address(), 0, 4, 8);
    const ExecutableGraph graph = definition.instantiate();
    StepValues values = graph.values();
    values.set(definition.parameter<std::int32_t>("n"), 7);
    graph.launch(on, values);
    std::vector<std::int32_t> now(5);
    on.copy_to_host(now.data(), results.address(), 20);
    on.synchronize();
    return now;
  };
  const Module kernels = device.load_table({kernel<&count_down>("count_down"), kernel<&bump>("bump")});
  Memory conditions = device.allocate(128);
  const Memory results = device.allocate(256);
  const GraphDefinition definition = with_conditions(stream, kernels, conditions, results);
  const std::string text = save_graph(definition);
  const std::vector<std::int32_t> expected{0, 35, 7, 0, 7};
  EXPECT_EQ(run(definition, stream, conditions, results), expected);
  const LoadedGraph loaded = load_graph(device, text, {.modules = {kernels}});
  EXPECT_EQ(save_graph(loaded.definition), text);
  EXPECT_EQ(run(loaded.definition, stream, loaded.memory[block_of(loaded, 128)], loaded.memory[block_of(loaded, 256)]),
            expected);
  for (const auto& [from, to, why] : {std::tuple("\"type\": \"i32\"", "\"type\": \"f32\"", "a bool, i32 or u32"),
                                      std::tuple("\"kind\": \"while\"", "\"kind\": \"until\"", "until"),
                                      std::tuple("\"most_turns\": 100", "\"most_turns\": 0", "expected an integer")}) {
    std::string bad = text;
    bad.replace(bad.find(from), std::string(from).size(), to);
    expect_error(ErrorCode::kInvalidArgument, why, [&] { (void)load_graph(device, bad, {.modules = {kernels}}); });
  }
  // Neither checking nor moving it changes the file.
  const ExecutableGraph graph = definition.instantiate();
  EXPECT_TRUE(self_check(graph, stream, graph.values()).equal);
  const Memory moved = device.allocate(256);
  graph.rebind(results.address(), 256, moved.address());
  graph.launch(stream, graph.values());  // with its conditions where they are
  stream.synchronize();
  EXPECT_EQ(save_graph(definition), text);
  conditions = Memory();
  expect_error(ErrorCode::kStaleAddress, "was freed", [&] { graph.launch(stream, graph.values()); });
}

// A report of what went wrong with these values is one file, also where nobody has the operations.
TEST_P(Saved, WithTheValuesOfAStep) {
  const GraphDefinition definition = make();
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  values.set(definition.parameter<std::int32_t>("n"), 4);
  values.set(definition.parameter<std::int32_t>("m"), 2);
  const std::string text = save_graph(definition, values, stream);
  const auto expected = run(definition, stream, memory);
  const LoadedGraph loaded = load_graph(device, text, {.modules = {module, own}, .stand_ins = true});
  const ExecutableGraph again = loaded.definition.instantiate();
  again.launch(stream, again.values());
  EXPECT_EQ(contents(stream, loaded.memory[block_of(loaded, 256)]), expected);
  EXPECT_NE(save_graph(definition, stream), text);
  EXPECT_EQ(save_graph(definition, graph.values()), save_graph(definition)) << "those are the initial ones";
  expect_error(ErrorCode::kInvalidNode, "values of graph", [&] { (void)save_graph(definition, again.values()); });
}

TEST_P(Saved, WithValuesThatAnOperationRefuses) {
  OperationRegistry known;
  known.add("even", {.should_handle = {},
                     .prepare = [](auto) -> std::vector<OutputSpec> { return {OutputSpec::argument(ArgKind::kI32)}; },
                     .update =
                         [](OperationCall& call) {
                           call.set(0, call.input<std::int32_t>(0));
                           if (call.input<std::int32_t>(0) % 2 != 0) throw std::invalid_argument("it is odd");
                         }});
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 2);
  const ParameterRef inputs[] = {n};
  const Operation even = known.declare(capture, "even", inputs).value();
  stream.launch(module.kernel("put"), {}, at(0), even.output<std::int32_t>(0));
  const GraphDefinition definition = capture.end();
  StepValues values = definition.instantiate().values();
  values.set(n, 3);
  const std::string text = save_graph(definition, values);
  // Who has the operation is told what it refuses; who has not replays what it gave before.
  expect_error(ErrorCode::kInvalidArgument, "at operation 0: it is odd",
               [&] { (void)load_graph(device, text, {.modules = {module}, .operations = &known}); });
  const LoadedGraph loaded = load_graph(device, text, {.modules = {module}, .stand_ins = true});
  const ExecutableGraph graph = loaded.definition.instantiate();
  graph.launch(stream, graph.values());
  EXPECT_EQ(contents(stream, loaded.memory[0])[0], 2);
}

void put_word(std::int32_t* out, std::uint64_t seed, std::uint64_t offset) {
  out[0] = static_cast<std::int32_t>(random_words(seed, offset)[0]);
}

TEST_P(Saved, WithTheRandomNumbersOfTheNextStep) {
  const Module kernels = device.load_table({kernel<&put_word>("put_word")});
  const Generator generator(5);
  Capture capture(stream);
  for (const std::uint64_t i : {0U, 1U}) {
    const RandomDraw taken = generator.take(stream, 10);
    stream.launch(kernels.kernel("put_word"), {}, at(i), taken.seed, taken.offset);
  }
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate();
  graph.launch(stream);
  const std::string text = save_graph(definition);
  graph.launch(stream);
  const auto expected = contents(stream, memory);
  const LoadedGraph loaded = load_graph(device, text, {.modules = {kernels}});
  ASSERT_EQ(loaded.notes.size(), 4U);
  EXPECT_NE(loaded.notes[0].find("are those of the file in every step"), std::string::npos);
  const ExecutableGraph again = loaded.definition.instantiate();
  for (int step = 0; step < 2; ++step) {
    again.launch(stream, again.values());
    const auto now = contents(stream, loaded.memory[0]);
    EXPECT_EQ(now[0], expected[0]);
    EXPECT_EQ(now[1], expected[1]);
  }
}

TEST_P(Saved, RunOnNullWithStandInsAndNoModules) {
  const Device null = Device::open("null:store");
  const LoadedGraph loaded = load_graph(null, save_graph(make()), {.stand_ins = true});
  ASSERT_EQ(loaded.notes.size(), 2U);
  EXPECT_NE(loaded.notes[0].find("the operation 'split' is not registered"), std::string::npos);
  const Stream on = null.create_stream();
  const ExecutableGraph graph = loaded.definition.instantiate();
  graph.launch(on, graph.values());
  on.synchronize();
  std::size_t launches = 0;
  for (const auto& work : testing::take_stored(null)) launches += work.kind == testing::StoredWork::Kind::kLaunch;
  EXPECT_EQ(launches, 8U);
}

TEST_P(Saved, GoToTheMemoryThatTheyAreGiven) {
  std::int32_t unknown = 0;
  Capture capture(stream);
  stream.launch(module.kernel("put"), {}, at(1), 9);
  stream.launch(module.kernel("put"), {}, &unknown, 8);
  const std::string text = save_graph(capture.end());
  const Memory mine = device.allocate(256);
  std::int32_t elsewhere = 0;
  const auto old = reinterpret_cast<std::uint64_t>(&unknown);
  LoadOptions options{.modules = {module}, .memory = {mine}, .addresses = {{old, host_address(&elsewhere)}}};
  const LoadedGraph loaded = load_graph(device, text, options);
  EXPECT_EQ(loaded.memory.at(0).address(), mine.address());
  loaded.definition.instantiate().launch(stream);
  EXPECT_EQ(contents(stream, mine)[1], 9);
  EXPECT_EQ(elsewhere, 8);
  EXPECT_EQ(unknown, 0);
  options.addresses.clear();
  expect_error(ErrorCode::kInvalidArgument, "node 1: the saved graph refers to memory at 0x",
               [&] { load_graph(device, text, options); });
  options.memory = {device.allocate(64)};
  expect_error(ErrorCode::kOutOfRange, "block 0 of the saved graph has 256 bytes and was given memory of 64",
               [&] { load_graph(device, text, options); });
  options.memory = {};
  options.max_memory_bytes = 100;
  expect_error(ErrorCode::kOutOfMemory, "needs 256 bytes of memory", [&] { load_graph(device, text, options); });
}

TEST_P(Saved, WhatIsMissingIsRefusedByName) {
  const std::string text = save_graph(make());
  expect_error(ErrorCode::kInvalidArgument,
               "kernel 0: the kernel 'put' (inout tensor<i32>, i32) is in none of the 0 modules",
               [&] { load_graph(device, text); });
  expect_error(ErrorCode::kInvalidArgument, "operation 0: the operation 'split' is not registered", [&] {
    load_graph(device, text, {.modules = {module, own}});
  });
  OperationRegistry some;
  some.add("split", *registry().find("split"));
  expect_error(ErrorCode::kInvalidArgument, "the external operation 'notify' is not registered", [&] {
    load_graph(device, text, {.modules = {module, own}, .operations = &some});
  });
  expect_error(ErrorCode::kStaleAddress, "whose contents were to be saved", [&] {
    const GraphDefinition definition = make();
    memory = Memory();
    (void)save_graph(definition, stream);
  });
}

std::string file(const std::string& nodes, const std::string& streams = R"("a")", const std::string& format = "1") {
  return R"({"slipway_graph": )" + format + R"(, "made_by": "a test", "device": "cpu", "name": "g",
 "kernels": [{"name": "put", "signature": "inout tensor<i32>, i32"}, {"name": "flag", "signature": "bool"}],
 "memory": [{"bytes": 64}], "parameters": [{"name": "n", "kind": "i32", "value": "01000000"}],
 "operations": [{"name": "o", "inputs": [0], "outputs": [{"what": "grid", "value": "010000000100000001000000"}]}],
 "streams": [)" +
         streams + R"(], "nodes": [)" + nodes + "]}";
}

TEST_P(Saved, MalformedFilesAreRefusedWithTheirPlace) {
  const Device null = Device::open("null");
  const auto load_it = [&](const std::string& text) { return load_graph(null, text, {.stand_ins = true}); };
  const std::string put =
      R"({"kind": "launch", "stream": 0, "kernel": 0, "arguments": [{"block": 0, "offset": 4}, {"variable": 0}]})";
  EXPECT_EQ(load_it(file(put)).definition.node_count(), 1U);
  expect_error(ErrorCode::kUnsupported, "is of format 2, made by 'a test', and this library reads formats up to 1",
               [&] { load_it(file(put, R"("a")", "2")); });
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = file(put);
    return text.replace(text.find(what), what.size(), by);
  };
  const std::pair<std::string, const char*> refused[] = {
      {"", "cannot be read at line 1, column 1: expected a value"},
      {"[]", "expected an object, found a list"},
      {"{}", "lacks the member 'slipway_graph'"},
      {file(put, ""), "at least one stream"},
      {file(R"({"kind": "jump", "stream": 0})"), "'jump' is no kind of node"},
      {file(R"({"kind": "launch", "stream": 1})"), "there is no number 1 among 1"},
      {file(put, R"("a", "b")").replace(file(put, R"("a", "b")").find(R"("stream": 0)"), 11, R"("stream": 1)"),
       "a stream that has not joined the capture"},
      {file(R"({"kind": "wait", "stream": 0, "mark": 0})"), "a mark that does not stand before it"},
      {file(R"({"kind": "mark", "stream": 0, "mark": 0}, {"kind": "wait", "stream": 1, "mark": 0})", R"("a", "b")"),
       "which was not joined back"},
      {file(R"({"kind": "mark", "stream": 0, "mark": 0}, {"kind": "mark", "stream": 0, "mark": 0})"),
       "was there before"},
      {replaced(R"("offset": 4)", R"("offset": 64)"), "lies outside of a block of 64 bytes"},
      {replaced(R"("block": 0)", R"("block": 7)"), "there is no number 7 among 1"},
      {replaced(R"({"block": 0, "offset": 4})", R"({"address": "12"})"), "expected an address as 0x"},
      {replaced(R"({"variable": 0}])", R"({"variable": 1}])"), "is i32"},
      {replaced(R"(, {"variable": 0}])", "]"), "takes 2 arguments, found 1"},
      {replaced(R"({"variable": 0})", R"("0102")"), "expected 4 bytes as pairs of hexadecimal digits"},
      {replaced(R"({"variable": 0})", R"("0102030g")"), "byte 3 is no pair of hexadecimal digits"},
      {replaced(R"("bytes": 64)", R"("bytes": 0)"), "expected an integer from 1"},
      {replaced(R"("bytes": 64)", R"("bytes": 64, "contents": "00")"), "expected 64 bytes"},
      {replaced("i32\"}, {", "what\"}, {"), "'what' is no argument kind"},
      {replaced(R"("kind": "i32")", R"("kind": "i32, i32")"), "is no kind of an argument"},
      {replaced(R"("what": "grid")", R"("what": "grin")"), "'grin' is no output"},
      {replaced(R"("inputs": [0])", R"("inputs": [5])"), "there is no number 5 among 1"},
      {file(R"({"kind": "launch", "stream": 0, "kernel": 1, "arguments": ["02"]})"), "a bool is 00 or 01"},
      {file(R"({"kind": "launch", "stream": 0, "kernel": 1, "arguments": ["01"], "grid": [1, 2]})"), "three numbers"},
      {file(R"({"kind": "launch", "stream": 0, "kernel": 1, "arguments": ["01"], "grid_from": 0})"), "is no grid"},
      {file(R"({"kind": "copy", "stream": 0, "bytes": 4})"), "a copy has 'to' and 'from'"},
      {file(R"({"kind": "fill", "stream": 0, "to": null, "pattern": "00", "count": 1})"),
       "node 0: the destination is the null address"},
  };
  for (const auto& [text, words] : refused) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::kInvalidArgument, words, [&, &from = text] {
      try {
        load_it(from);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kFailedPrecondition) throw Error(ErrorCode::kInvalidArgument, error.what());
        throw;
      }
    });
  }
  expect_error(ErrorCode::kOutOfRange, "node 0: the source at", [&] {
    load_it(file(R"({"kind": "copy", "stream": 0, "bytes": 400000000000, "from": {"block": 0, "offset": 0}})"));
  });
}

TEST_P(Saved, OperationsAreDeclaredByName) {
  OperationRegistry known;
  int prepared = 0;
  const auto make_one = [&](int factor) {
    return OperationHandler{.should_handle = [](std::span<const ParameterRef> in) { return in.size() == 1; },
                            .prepare = [&](auto) -> std::vector<OutputSpec> {
                              ++prepared;
                              return {OutputSpec::argument(ArgKind::kI32)};
                            },
                            .update = [factor](OperationCall& c) { c.set(0, c.input<std::int32_t>(0) * factor); }};
  };
  EXPECT_FALSE(known.add("times", make_one(2)));
  EXPECT_TRUE(known.add("times", make_one(3)));  // the last one holds
  expect_error(ErrorCode::kInvalidArgument, "without a name", [&] { known.add("", make_one(1)); });
  expect_error(ErrorCode::kInvalidArgument, "'empty' was registered without", [&] { known.add("empty", {}); });
  expect_error(ErrorCode::kInvalidArgument, "something to call", [&] { known.add_external("empty", nullptr); });
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 2);
  const ParameterRef one[] = {n}, two[] = {n, n};
  EXPECT_FALSE(known.declare(capture, "other", one).has_value());
  EXPECT_FALSE(known.declare(capture, "times", two).has_value());
  EXPECT_EQ(prepared, 0);
  const auto operation = known.declare(capture, "part/times", one);
  ASSERT_TRUE(operation.has_value());
  EXPECT_EQ(prepared, 1);
  known.add("times", make_one(100));  // graphs keep what they were captured with
  stream.launch(module.kernel("put"), {}, at(0), operation->output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (std::int32_t i = 5; i < 8; ++i) {
    values.set(n, i);
    graph.launch(stream, values);
    EXPECT_EQ(contents(stream, memory)[0], 3 * i);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Saved, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
