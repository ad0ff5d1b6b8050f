// What drivers return and what the front door turns into an Error. Nothing below the front door throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "slipway/error.h"

namespace slipway::internal {

struct ErrorDetails {
  ErrorCode code = ErrorCode::kInternal;
  std::string sentence;  // what, the offending value, the limit, what to do
  std::string name;      // kernel or graph
  std::uint64_t sequence = 0;
  bool submitted = false;
  bool stable = false;
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // success
  Status(ErrorCode code, std::string sentence) : details_(make(code, std::move(sentence))) {}
  explicit Status(ErrorDetails details) : details_(std::make_shared<const ErrorDetails>(std::move(details))) {}
  explicit Status(std::shared_ptr<const ErrorDetails> details) noexcept : details_(std::move(details)) {}

  bool ok() const noexcept { return details_ == nullptr; }
  ErrorCode code() const noexcept { return details_ ? details_->code : ErrorCode::kInternal; }
  const ErrorDetails& details() const noexcept { return *details_; }
  const std::shared_ptr<const ErrorDetails>& shared() const noexcept { return details_; }

  // The front door's only way to fail.
  void throw_if_error() const {
    if (details_) [[unlikely]]
      throw Error(details_);
  }

 private:
  static std::shared_ptr<const ErrorDetails> make(ErrorCode code, std::string sentence) {
    ErrorDetails d;
    d.code = code;
    d.sentence = std::move(sentence);
    return std::make_shared<const ErrorDetails>(std::move(d));
  }
  std::shared_ptr<const ErrorDetails> details_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : value_(std::move(status)) {}

  bool ok() const noexcept { return value_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(value_); }
  T& value() noexcept { return std::get<0>(value_); }

  // The value, or the error thrown: for the front door.
  T take() {
    if (!ok()) std::get<1>(value_).throw_if_error();
    return std::move(std::get<0>(value_));
  }

 private:
  std::variant<T, Status> value_;
};

}  // namespace slipway::internal
