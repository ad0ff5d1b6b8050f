// A driver around another one, whose n-th call fails; for tests that link the static library. Streams and events are
// the inner driver's own, since records point to them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/uri.h"
#include "device/device_impl.h"
#include "device/driver.h"
#include "slipway/device.h"

namespace slipway::test {

// Counts what may fail. The n-th time is told once; 0: never.
class FaultCounter {
 public:
  void arm(std::uint64_t n) noexcept { left_ = n, seen_ = 0, fired_ = false; }
  void disarm() noexcept { left_ = 0; }
  bool fires() noexcept {
    ++seen_;
    if (left_ == 0 || --left_ != 0) return false;
    return fired_ = true;
  }
  bool fired() const noexcept { return fired_; }
  std::uint64_t seen() const noexcept { return seen_; }

 private:
  std::uint64_t left_ = 0, seen_ = 0;
  bool fired_ = false;
};

class FaultyModule final : public internal::DriverModule {
 public:
  FaultyModule(std::unique_ptr<internal::DriverModule> inner, FaultCounter& faults)
      : inner_(std::move(inner)), faults_(faults) {}
  internal::Result<std::unique_ptr<internal::KernelCode>> kernel(const std::string& name,
                                                                 const Signature* signature) override {
    if (faults_.fires()) return internal::Status(ErrorCode::kOutOfMemory, "injected: looking up a kernel");
    return inner_->kernel(name, signature);
  }

 private:
  std::unique_ptr<internal::DriverModule> inner_;
  FaultCounter& faults_;
};

class FaultyDriver final : public internal::Driver {
 public:
  using Status = internal::Status;
  template <class T>
  using Result = internal::Result<T>;

  FaultyDriver(std::unique_ptr<internal::Driver> inner, FaultCounter& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  // A device over the driver that the URI names.
  static Device open(const std::string& uri_text, FaultCounter& faults) {
    const internal::Uri uri = internal::Uri::parse(uri_text).take();
    for (const internal::DriverEntry& entry : internal::driver_table()) {
      if (uri.driver() != entry.name) continue;
      auto environment = std::make_unique<internal::DriverEnvironment>();
      auto driver = std::make_unique<FaultyDriver>(entry.open(uri, *environment).take(), faults);
      return Device(std::make_shared<internal::DeviceImpl>(std::move(environment), std::move(driver)));
    }
    throw Error(ErrorCode::kInvalidArgument, "there is no driver for " + uri_text);
  }

  const DeviceInfo& info() const override { return inner_->info(); }
  const internal::AbiDescriptor& abi() const override { return inner_->abi(); }
  Result<std::shared_ptr<internal::DriverStream>> create_stream(const StreamOptions& options) override {
    if (faults_.fires()) return failure("creating a stream");
    return inner_->create_stream(options);
  }
  Result<std::shared_ptr<internal::DriverStream>> adopt_stream(void* native) override {
    if (faults_.fires()) return failure("adopting a stream");
    return inner_->adopt_stream(native);
  }
  Result<std::unique_ptr<internal::DriverEvent>> create_event(const EventOptions& options) override {
    if (faults_.fires()) return failure("creating an event");
    return inner_->create_event(options);
  }
  Result<std::unique_ptr<internal::DriverHold>> create_hold() override { return inner_->create_hold(); }
  Result<DevicePtr> allocate(std::uint64_t bytes) override {
    if (faults_.fires()) return failure("allocating memory");
    return inner_->allocate(bytes);
  }
  void free(DevicePtr address) override { inner_->free(address); }
  Result<void*> allocate_host(std::uint64_t bytes) override {
    if (faults_.fires()) return failure("allocating host memory");
    return inner_->allocate_host(bytes);
  }
  void free_host(void* memory) override { inner_->free_host(memory); }
  Status adopt_memory(DevicePtr address, std::uint64_t bytes) override {
    if (faults_.fires()) return failure("adopting memory");
    return inner_->adopt_memory(address, bytes);
  }
  void forget_memory(DevicePtr address) override { inner_->forget_memory(address); }
  Result<std::unique_ptr<internal::DriverModule>> load_table(std::span<const KernelDef> kernels) override {
    return wrapped(inner_->load_table(kernels));
  }
  Result<std::unique_ptr<internal::DriverModule>> load_library(const std::string& path) override {
    return wrapped(inner_->load_library(path));
  }
  Result<std::unique_ptr<internal::DriverModule>> load_source(std::string_view text,
                                                              std::string_view options) override {
    return wrapped(inner_->load_source(text, options));
  }
  Status check_launch(const internal::KernelCode& code, const internal::LaunchExtent& extent) override {
    if (faults_.fires()) return failure("checking a launch");
    return inner_->check_launch(code, extent);
  }
  Status reset() override { return inner_->reset(); }
  bool shut_down(std::int64_t deadline_ns) override { return inner_->shut_down(deadline_ns); }
  bool reads_values_late() const override { return inner_->reads_values_late(); }
  internal::GateTraits gates() const override { return inner_->gates(); }
  std::vector<testing::StoredWork> take_stored() override { return inner_->take_stored(); }
  void* native_handle() override { return inner_->native_handle(); }

 private:
  static Status failure(const char* what) { return {ErrorCode::kOutOfMemory, std::string("injected: ") + what}; }
  Result<std::unique_ptr<internal::DriverModule>> wrapped(Result<std::unique_ptr<internal::DriverModule>> loaded) {
    if (faults_.fires()) return failure("loading a module");
    if (!loaded.ok()) return loaded;
    return std::unique_ptr<internal::DriverModule>(std::make_unique<FaultyModule>(loaded.take(), faults_));
  }

  std::unique_ptr<internal::Driver> inner_;
  FaultCounter& faults_;
};

}  // namespace slipway::test
