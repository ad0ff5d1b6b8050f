#include <cstdlib>

#include "support.h"

namespace slipway::api_tests {
namespace {

TEST(Open, BadUrisAreRefusedAndSayWhy) {
  const auto bad = [](const char* uri, std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, parts, [&] { (void)Device::open(uri); })) << uri;
  };
  bad("", {"names no driver", "cpu"});
  bad(":workers=1", {"names no driver"});
  bad("gpu", {"'gpu'", "cpu", "null", "opencl"});
  bad("CPU", {"'CPU'"});
  bad("cpu:worker=2", {"'worker'", "workers", "spin_us"});
  bad("cpu:workers=2,workers=2", {"'workers'", "twice"});
  bad("cpu:,workers=2", {"without a name"});
  bad("cpu:=2", {"without a name"});
  bad("cpu:workers", {"workers", "1 to 256"});
  bad("cpu:workers=", {"workers", "1 to 256"});
  bad("cpu:workers=two", {"'two'", "1 to 256"});
  bad("cpu:workers=0", {"'0'", "1 to 256"});
  bad("cpu:workers=257", {"'257'", "1 to 256"});
  bad("cpu:workers=-1", {"'-1'"});
  bad("cpu:workers=1x", {"'1x'"});
  bad("cpu:workers=99999999999999999999", {"1 to 256"});
  bad("cpu:inline,workers=1", {"workers", "in-line"});
  bad("cpu:inline=yes", {"'yes'"});
  bad("cpu:blocking=2", {"'2'"});
  bad("cpu:affinity=3-1", {"'3-1'"});
  bad("cpu:affinity=0+", {"'0+'"});
  bad("cpu:wait_limit_ms=0", {"wait_limit_ms"});
  bad("null:fault_at=0", {"fault_at"});
  bad("null:memory=svm", {"'memory'", "store"});
}

TEST(Open, GoodUrisTellWhatTheyAre) {
  const Device two = Device::open("cpu:workers=2,spin_us=10,wait_limit_ms=1000");
  EXPECT_EQ(two.info().uri, "cpu:workers=2,spin_us=10,wait_limit_ms=1000");
  EXPECT_EQ(two.info().driver, "cpu");
  EXPECT_EQ(two.info().workers, 2U);
  EXPECT_TRUE(two.info().host_addressable);
  EXPECT_TRUE(two.info().runs_kernels);
  EXPECT_EQ(Device::open().info().driver, "cpu");
  EXPECT_EQ(Device::open("cpu:inline=1").info().workers, 0U);
  EXPECT_EQ(Device::open("cpu:inline=0").info().workers, 1U);
  EXPECT_EQ(Device::open("cpu:affinity=0").info().workers, 1U);
  const Device null = Device::open("null");
  EXPECT_FALSE(null.info().runs_kernels);
  EXPECT_FALSE(null.info().host_addressable);
  EXPECT_EQ(null.native_handle(), nullptr);
}

TEST(Open, EmptyHandlesAreRefused) {
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"device"}, [] { (void)Device{}.info(); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"stream"}, [] { Stream{}.synchronize(); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"event"}, [] { (void)Event{}.query(); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"module"}, [] { (void)Module{}.kernel("x"); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"kernel"}, [] { (void)Kernel{}.name(); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"launch plan"}, [] { (void)LaunchPlan{}.kernel(); }));
  EXPECT_FALSE(Device{} || Stream{} || Event{} || Memory{} || HostMemory{} || Module{} || Kernel{} || LaunchPlan{});
}

TEST(Open, DriversAreListedWithTheirOptions) {
  bool cpu = false, null = false, opencl = false;
  for (const DriverStatus& driver : list_drivers()) {
    EXPECT_FALSE(driver.detail.empty()) << driver.name;
    EXPECT_NE(driver.options.find("wait_limit_ms"), std::string::npos) << driver.name;
    if (driver.name == "cpu") cpu = driver.available;
    if (driver.name == "null") null = driver.available;
    if (driver.name == "opencl") opencl = true;
    // Each option that is told of is taken.
    std::string_view rest = driver.options;
    while (driver.available && !rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const std::string option(line.substr(0, line.find_first_of(" =")));
      try {
        (void)Device::open(driver.name + ":" + option + "=nonsense");
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("unknown option"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_TRUE(cpu && null && opencl);
}

TEST(Open, KernelTablesAreChecked) {
  const Device device = Device::open("cpu:inline");
  const KernelDef good = kernel<&add_one>("add_one");
  KernelDef unnamed = good, empty = good;
  unnamed.name = nullptr;
  empty.entry = nullptr;
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"row 1", "name"}, [&] {
    (void)device.load_table({good, unnamed});
  }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"row 0", "entry"}, [&] { (void)device.load_table({empty}); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"rows 0 and 1", "add_one"}, [&] {
    (void)device.load_table({good, good});
  }));
  const Module module = device.load_table({good});
  EXPECT_EQ(module.kernel("add_one").name(), "add_one");
  EXPECT_EQ(to_string(module.kernel("add_one").signature()), "inout tensor<u32>");
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"add_on'", "add_one"}, [&] { (void)module.kernel("add_on"); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"tensor<f32>", "tensor<u32>"},
                      [&] { (void)module.kernel("add_one", parse_signature("tensor<f32>")); }));
  EXPECT_TRUE(
      refused(ErrorCode::kUnsupported, {"load_table()"}, [&] { (void)device.load_source("kernel void f() {}"); }));
}

TEST(Open, LaunchBlockingIsReadWhenADeviceIsOpened) {
  const auto blocks = [](const char* value, const char* uri) {
    if (value) ::setenv("SLIPWAY_LAUNCH_BLOCKING", value, 1);
    else ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
    const Device device = Device::open(uri);
    ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
    const Stream s = device.create_stream();
    const Memory m = device.allocate(4);
    s.fill(m.address(), 1, 4, 1);
    return device.counters()[Reason::kBlockingMode] == 1;
  };
  EXPECT_TRUE(blocks("1", "cpu"));
  EXPECT_TRUE(blocks("1", "null"));
  EXPECT_TRUE(blocks("0", "cpu:blocking"));
  EXPECT_FALSE(blocks("0", "cpu"));
  EXPECT_FALSE(blocks("", "cpu"));
  EXPECT_FALSE(blocks(nullptr, "cpu"));
  for (const char* bad : {"2", "true", "yes", " 1", "01"}) {
    EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"SLIPWAY_LAUNCH_BLOCKING", bad}, [&] { blocks(bad, "cpu"); }));
  }
  ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
}

TEST(Open, TypedHandlesMustMatchTheSignature) {
  const Device device = Device::open("cpu:inline");
  const Module module = load(device);
  const LaunchPlan plan = LaunchPlan::create(module.kernel("append"), one_block());
  using Log = Tensor<std::uint32_t>;
  EXPECT_TRUE((refused(ErrorCode::kInvalidArgument, {"argument 1", "i32", "u32"},
                       [&] { (void)plan.typed<Log, std::int32_t>(); })));
  EXPECT_TRUE((refused(ErrorCode::kInvalidArgument, {"argument 0", "i32"},
                       [&] { (void)plan.typed<Tensor<std::int32_t>, std::uint32_t>(); })));
  EXPECT_TRUE((refused(ErrorCode::kInvalidArgument, {"argument 0"},
                       [&] { (void)plan.typed<Tensor<const std::uint32_t>, std::uint32_t>(); })));
  EXPECT_TRUE((refused(ErrorCode::kInvalidArgument, {"1 types"}, [&] { (void)plan.typed<Log>(); })));
  EXPECT_TRUE(
      (refused(ErrorCode::kInvalidArgument, {"typed()"}, [&] { (void)plan.typed_grid<Log, std::uint32_t>(); })));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"empty"}, [&] { (void)LaunchPlan{}.typed<Log>(); }));
}

}  // namespace
}  // namespace slipway::api_tests
