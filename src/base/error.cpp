#include "slipway/error.h"

#include "base/status.h"
#include "slipway/version.h"

namespace slipway {
namespace {

std::shared_ptr<const internal::ErrorDetails> make_details(ErrorCode code, const std::string& sentence) {
  internal::ErrorDetails d;
  d.code = code;
  d.sentence = sentence;
  return std::make_shared<const internal::ErrorDetails>(std::move(d));
}

std::string full_text(const internal::ErrorDetails& d) { return std::string(name_of(d.code)) + ": " + d.sentence; }

}  // namespace

const char* name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "InvalidArgument";
    case ErrorCode::kOutOfRange: return "OutOfRange";
    case ErrorCode::kOutOfMemory: return "OutOfMemory";
    case ErrorCode::kUnavailable: return "Unavailable";
    case ErrorCode::kUnsupported: return "Unsupported";
    case ErrorCode::kFailedPrecondition: return "FailedPrecondition";
    case ErrorCode::kStaleAddress: return "StaleAddress";
    case ErrorCode::kStaleContext: return "StaleContext";
    case ErrorCode::kInvalidNode: return "InvalidNode";
    case ErrorCode::kBusy: return "Busy";
    case ErrorCode::kWouldDeadlock: return "WouldDeadlock";
    case ErrorCode::kKernelFailed: return "KernelFailed";
    case ErrorCode::kDeviceLost: return "DeviceLost";
    case ErrorCode::kTimeout: return "Timeout";
    case ErrorCode::kCancelled: return "Cancelled";
    case ErrorCode::kInternal: return "Internal";
  }
  return "Unknown";
}

Error::Error(ErrorCode code, const std::string& sentence) : Error(make_details(code, sentence)) {}
Error::Error(std::shared_ptr<const internal::ErrorDetails> details)
    : std::runtime_error(full_text(*details)), details_(std::move(details)) {}
Error::~Error() = default;
Error::Error(const Error&) noexcept = default;
Error& Error::operator=(const Error&) noexcept = default;

ErrorCode Error::code() const noexcept { return details_->code; }
const std::string& Error::name() const noexcept { return details_->name; }
std::uint64_t Error::sequence() const noexcept { return details_->sequence; }
bool Error::submitted() const noexcept { return details_->submitted; }
bool Error::stable() const noexcept { return details_->stable; }

int runtime_version() noexcept { return SLIPWAY_VERSION; }

#define SLIPWAY_TEXT_OF(x) #x
#define SLIPWAY_TEXT(x) SLIPWAY_TEXT_OF(x)
const char* runtime_version_string() noexcept {
  return SLIPWAY_TEXT(SLIPWAY_VERSION_MAJOR) "." SLIPWAY_TEXT(SLIPWAY_VERSION_MINOR) "." SLIPWAY_TEXT(
      SLIPWAY_VERSION_PATCH);
}

}  // namespace slipway
