#include "slipway/memory.h"

#include <string>

#include "device/handles.h"
#include "slipway/argument.h"

namespace slipway {
namespace internal {

MemoryImpl::~MemoryImpl() {
  if (bytes == 0 || device->forked()) return;
  device->addresses().remove(static_cast<std::uint64_t>(address));
  DeviceImpl* owner = device.get();  // outlives its retire list
  if (adopted) {
    owner->retired().retire_memory([owner, at = address] { owner->driver().forget_memory(at); });
    return;
  }
  owner->retired().retire_memory([owner, at = address, size = bytes] {
    owner->driver().free(at);
    owner->counters().live_memory_bytes.fetch_sub(size, std::memory_order_relaxed);
  });
}

HostMemoryImpl::~HostMemoryImpl() {
  if (!data || device->forked()) return;
  DeviceImpl* owner = device.get();
  owner->retired().retire_memory([owner, at = data] { owner->driver().free_host(at); });
}

}  // namespace internal

DevicePtr Memory::address() const noexcept { return impl_ ? impl_->address : kNullDevicePtr; }
std::uint64_t Memory::size_bytes() const noexcept { return impl_ ? impl_->bytes : 0; }

DevicePtr Memory::checked_address(std::uint64_t first, std::size_t element_bytes) const {
  const std::uint64_t elements = size_bytes() / element_bytes;
  if (first > elements) {
    throw Error(ErrorCode::kOutOfRange, "element " + std::to_string(first) + " of a memory block that holds " +
                                            std::to_string(elements) + " elements of " + std::to_string(element_bytes) +
                                            " bytes; ask for one inside it");
  }
  return offset(address(), first * element_bytes);
}

void* HostMemory::data() const noexcept { return impl_ ? impl_->data : nullptr; }
std::uint64_t HostMemory::size_bytes() const noexcept { return impl_ ? impl_->bytes : 0; }

Argument::Argument(const Memory& memory) noexcept : Argument(memory.address()) {
  if (memory.impl()) device_id_ = memory.impl()->device->id();
}

}  // namespace slipway
