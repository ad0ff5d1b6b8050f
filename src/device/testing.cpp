#include "slipway/testing.h"

#include <utility>

#include "device/handles.h"

namespace slipway::testing {
namespace internal {

struct HoldImpl {
  std::shared_ptr<slipway::internal::DeviceImpl> device;
  std::shared_ptr<slipway::internal::DriverHold> hold;
  std::atomic<bool> released{false};
};

}  // namespace internal

Hold::Hold(const Device& device) : impl_(std::make_unique<internal::HoldImpl>()) {
  slipway::internal::deref(device, "the device").check_usable("creating a hold");
  impl_->device = device.impl();
  impl_->hold = impl_->device->driver().create_hold().take();
}

Hold::~Hold() {
  if (!impl_->device->forked()) release();
  impl_->device->retired().retire([h = std::move(impl_->hold)]() mutable { h.reset(); });
}

void Hold::hold(const Stream& stream) {
  slipway::internal::StreamImpl& s = slipway::internal::deref(stream, "the stream");
  check_same_device(*impl_->device, s.device(), "the stream");
  s.device().check_usable("a hold", s.generation());
  s.refuse_captured("a hold");
  (void)submit_wait(s, *impl_->hold);  // in blocking mode too it is what follows that waits
}

void Hold::release() {
  impl_->device->check_process("releasing a hold");
  if (!impl_->released.exchange(true, std::memory_order_acq_rel)) impl_->hold->release();
}

std::vector<StoredWork> take_stored(const Device& device) {
  slipway::internal::DeviceImpl& d = slipway::internal::deref(device, "the device");
  d.check_usable("taking stored work");
  return d.driver().take_stored();
}

}  // namespace slipway::testing
