// B30: an old failure was told of the wrong launch, or not at all.
#include "report.h"

namespace slipway::reports {
namespace {

[[noreturn]] void boom(float*) { throw std::runtime_error("boom"); }

// One bad submission among good ones, at each place: it is named, once, and the good ones are not.
SLIPWAY_REPORT(B30_the_bad_submission_is_named_once, kEvery) {
  const Device& device = c.device();
  const Kernel count = c.kernel("count");
  std::vector<std::pair<std::string, std::function<void(const Stream&)>>> bad;
  bad.emplace_back("bad callback",
                   [](const Stream& s) { s.host_function([] { throw std::runtime_error("boom"); }, "bad callback"); });
  Module throwing;
  if (c.can(kThrowing)) {
    throwing = device.load_table({kernel<&boom>("bad kernel")});
    const Kernel kernel = throwing.kernel("bad kernel");
    const auto typed = LaunchPlan::create(kernel, {.shape = LaunchShape{}}).typed<Tensor<float>>();
    bad.emplace_back("bad kernel", [=](const Stream& s) { s.launch(kernel, {}, kNullDevicePtr); });
    bad.emplace_back("bad kernel", [=](const Stream& s) { typed(s, Tensor<float>()); });
  }
  for (int round = 0; round < 3; ++round) {  // streams of a device are recycled, and count from 1 again
    for (const auto& [name, submit] : bad) {
      for (std::uint64_t place = 1; place <= 5; ++place) {
        const Stream stream = device.create_stream();
        const Memory cnt = device.allocate(4);
        {
          testing::Hold hold(device);
          hold.hold(stream);
          for (std::uint64_t i = 1; i <= 5; ++i) {
            if (i == place) submit(stream);
            else stream.launch(count, {}, cnt);
          }
        }
        const Error error =
            check_throws(ErrorCode::kKernelFailed, {"boom", "'" + name + "'"}, [&] { stream.synchronize(kLimit); });
        check_equal(error.name(), name, "the name in the error");
        check_equal(error.sequence(), place + 1, "its submission, behind the hold");
        check(error.submitted(), "it may have reached the device");
        stream.synchronize(kLimit);  // told once
        device.synchronize(kLimit);
        const Error refusal =
            check_throws(ErrorCode::kKernelFailed, {"boom", "recover()"}, [&] { stream.launch(count, {}, cnt); });
        check_equal(refusal.sequence(), place + 1, "the submission that a refusal names");
        check(!refusal.submitted(), "what is refused is not submitted");
        stream.recover();
        stream.launch(count, {}, cnt);  // an innocent launch is told of nothing
        stream.synchronize(kLimit);
      }
    }
  }
}

// In a chain of streams the first failure is the cause everywhere, though others failed later by themselves.
SLIPWAY_REPORT(B30_the_first_failure_is_the_cause, kEvery) {
  const Device& device = c.device();
  std::vector<Stream> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(device.create_stream());
  {
    testing::Hold hold(device);
    hold.hold(streams.front());
    streams.front().host_function([] { throw std::runtime_error("the cause"); }, "first");
    for (std::size_t i = 1; i < streams.size(); ++i) {
      const Event event = device.create_event();
      streams[i - 1].mark(event);
      streams[i].wait(event);
      streams[i].host_function([] { throw std::runtime_error("a consequence"); }, "later");
    }
  }
  for (const Stream& stream : streams) {
    const Error error =
        check_throws(ErrorCode::kKernelFailed, {"the cause", "'first'"}, [&] { stream.synchronize(kLimit); });
    check_equal(error.name(), "first", "the name in the error");
    stream.synchronize(kLimit);
  }
  for (const Stream& stream : streams) stream.recover();
  device.synchronize(kLimit);
}

// Too few and too many arguments, for kernels of every size, before anything is submitted.
SLIPWAY_REPORT(B30_wrong_counts_are_told_before_submission, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory m = device.allocate(64);
  for (const char* name : {"count", "put_i32", "log_id", "point", "add", "six", "kinds"}) {
    const Kernel kernel = c.kernel(name);
    const std::size_t wanted = kernel.signature().size();
    const std::string expected = "expected " + std::to_string(wanted);
    const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{}});
    const LaunchPlan with_grid = LaunchPlan::create(kernel, {});
    const std::uint64_t before = stream.submitted();
    for (std::size_t given = 0; given <= wanted + 2; ++given) {
      if (given == wanted) continue;
      const std::vector<Argument> arguments(given, Argument(m));
      const std::string got = "got " + std::to_string(given);
      check_throws(ErrorCode::kInvalidArgument, {name, expected + " arguments", got},
                   [&] { stream.launch_arguments(kernel, {}, arguments); });
      check_throws(ErrorCode::kInvalidArgument, {name, expected, got},
                   [&] { plan.launch_arguments(stream, std::nullopt, arguments); });
      const Error error = check_throws(ErrorCode::kInvalidArgument, {name, expected, got},
                                       [&] { with_grid.launch_arguments(stream, Extent{}, arguments); });
      check(!error.submitted(), "a refusal says that nothing was submitted");
    }
    check_equal(stream.submitted(), before, "submissions after refusals");
  }
}

}  // namespace
}  // namespace slipway::reports
