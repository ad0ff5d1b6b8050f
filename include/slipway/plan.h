// Launch plans: a launch prepared once, so that repeating it is copying its bytes.
//
// A plan holds a kernel, the packed arguments as a template with the fixed ones filled in, and perhaps a
// static launch shape, or a rule that computes each call's grid. It is immutable and shared; it keeps its kernel and
// module alive, and what it submitted runs even when it is dropped right after. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slipway/argument.h"
#include "slipway/export.h"
#include "slipway/grid.h"
#include "slipway/module.h"
#include "slipway/stream.h"

namespace slipway {

namespace internal {
struct PlanImpl;
class SiteImpl;
}  // namespace internal

struct PlanOptions {
  // Static shape: checked now, never again. Without it every launch brings its grid, unless `grid` is given, and
  // `block`, `shared_bytes` and `spread` below still hold.
  std::optional<LaunchShape> shape{};
  // Computes each call's grid from its arguments and the fixed ones (grid.h). A rule that needs none but fixed ones
  // makes the shape static. Not together with `shape`.
  std::optional<GridRule> grid{};
  Extent block{0, 0, 0};
  std::int64_t shared_bytes = 0;
  bool spread = false;
  // Arguments that never change, by position. Tensors are refused: their address is not constant.
  std::vector<std::pair<std::size_t, Argument>> fixed{};
  // Launched, through the general path, when an argument is not what `kernel` was specialised for. Without
  // it such a call is refused.
  std::optional<Kernel> fallback{};
};

namespace detail {
template <class Impl, class... Args>
class TypedHandle;
template <class Impl, class... Args>
class TypedGridHandle;
}  // namespace detail

// Handles of plans: a call packs its arguments, checks the kernel's guards and appends one record. The second kind's
// calls bring the grid, between stream and arguments. Call sites have the same (call_site.h).
template <class... Args>
using TypedLaunch = detail::TypedHandle<const internal::PlanImpl, Args...>;
template <class... Args>
using TypedGridLaunch = detail::TypedGridHandle<const internal::PlanImpl, Args...>;

class SLIPWAY_API LaunchPlan {
 public:
  LaunchPlan() noexcept = default;
  explicit LaunchPlan(std::shared_ptr<internal::PlanImpl> impl) noexcept : impl_(std::move(impl)) {}

  static LaunchPlan create(const Kernel& kernel, const PlanOptions& options = {});

  // Launches with the run-time arguments, in order, leaving out the fixed ones. The kinds are checked.
  template <class... Args>
  void launch(const Stream& stream, const Args&... args) const {
    if constexpr (sizeof...(Args) == 0) {
      launch_arguments(stream, std::nullopt, {});
    } else {
      const Argument arguments[] = {Argument(args)...};
      launch_arguments(stream, std::nullopt, arguments);
    }
  }
  // `grid` is given exactly when takes_grid().
  void launch_arguments(const Stream& stream, std::optional<Extent> grid, std::span<const Argument> arguments) const;

  // A handle whose argument types are compared with the signature once, here, and by the compiler at each
  // call. Tensor<T>, the exact scalar types, and structs for bytes. Throws InvalidArgument naming the first
  // parameter that differs.
  template <class... Args>
  TypedLaunch<Args...> typed() const;  // of a plan with a static shape or a grid rule
  template <class... Args>
  TypedGridLaunch<Args...> typed_grid() const;  // of a plan that takes_grid()

  const Kernel& kernel() const;
  std::size_t runtime_argument_count() const;
  bool has_static_shape() const;
  bool takes_grid() const;  // does each launch bring its grid? Not with a static shape or a grid rule

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::PlanImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::PlanImpl> impl_;
};

namespace detail {

template <class T>
struct WireType {  // what is packed for an argument type of a typed handle
  using type = T;
  static Parameter parameter() noexcept { return parameter_of<T>(); }
};
template <class T>
struct WireType<Tensor<T>> {
  using type = std::uint64_t;
  static Parameter parameter() noexcept { return parameter_of<T*>(); }
};

SLIPWAY_API void check_typed(const internal::PlanImpl* plan, std::span<const Parameter> parameters, bool takes_grid);
// `addresses`: those of all tensors, or'ed. The parameters lie in the registers that the fast path leaves alone.
SLIPWAY_API void launch_static(const std::byte* packed, internal::StreamImpl& stream, const internal::PlanImpl& plan,
                               std::uint64_t addresses);
SLIPWAY_API void launch_static(const std::byte* packed, internal::StreamImpl& stream, internal::SiteImpl& site,
                               std::uint64_t addresses);
SLIPWAY_API void launch_grid(const std::byte* packed, internal::StreamImpl& stream, const internal::PlanImpl& plan,
                             std::uint64_t addresses, const Extent& grid);
SLIPWAY_API void launch_grid(const std::byte* packed, internal::StreamImpl& stream, internal::SiteImpl& site,
                             std::uint64_t addresses, const Extent& grid);
[[noreturn]] SLIPWAY_API void throw_empty(bool plan_is_empty);

template <class T>
std::uint64_t address_bits(const T&) noexcept {
  return 0;
}
template <class T>
std::uint64_t address_bits(const Tensor<T>& tensor) noexcept {
  return static_cast<std::uint64_t>(tensor.address);
}

// Run-time arguments at their natural offsets; the tail is padded so that it may be copied in whole words.
template <class... Args>
struct PackedArguments {
  static constexpr auto kOffsets = natural_offsets<typename WireType<Args>::type...>();
  static constexpr std::size_t kSize = sizeof...(Args) == 0 ? 16 : align_up(kOffsets[sizeof...(Args)], 16);
  alignas(16) std::byte bytes[kSize];

  template <std::size_t... I>
  void pack(std::index_sequence<I...>, const Args&... args) noexcept {
    ((put<I>(args)), ...);
  }
  template <std::size_t I, class T>
  void put(const T& value) noexcept {
    __builtin_memcpy(bytes + kOffsets[I], &value, sizeof(value));
  }
  template <std::size_t I, class T>
  void put(const Tensor<T>& value) noexcept {
    __builtin_memcpy(bytes + kOffsets[I], &value.address, 8);
  }
};

// What is launched is an Impl, a plan or a call site.
template <class Impl, class... Args>
class TypedHandle {
 public:
  TypedHandle() noexcept = default;
  explicit TypedHandle(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

  void operator()(const Stream& stream, const Args&... args) const {
    if (!impl_ || !stream) [[unlikely]]
      throw_empty(!impl_);
    PackedArguments<Args...> packed;
    packed.pack(std::index_sequence_for<Args...>{}, args...);
    launch_static(packed.bytes, *stream.impl(), *impl_, (address_bits(args) | ... | std::uint64_t{0}));
  }
  explicit operator bool() const noexcept { return impl_ != nullptr; }

 private:
  std::shared_ptr<Impl> impl_;
};

template <class Impl, class... Args>
class TypedGridHandle {
 public:
  TypedGridHandle() noexcept = default;
  explicit TypedGridHandle(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

  void operator()(const Stream& stream, const Extent& grid, const Args&... args) const {
    if (!impl_ || !stream) [[unlikely]]
      throw_empty(!impl_);
    PackedArguments<Args...> packed;
    packed.pack(std::index_sequence_for<Args...>{}, args...);
    launch_grid(packed.bytes, *stream.impl(), *impl_, (address_bits(args) | ... | std::uint64_t{0}), grid);
  }
  explicit operator bool() const noexcept { return impl_ != nullptr; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace detail

template <class... Args>
TypedLaunch<Args...> LaunchPlan::typed() const {
  const std::array<Parameter, sizeof...(Args)> parameters{detail::WireType<Args>::parameter()...};
  detail::check_typed(impl_.get(), parameters, false);
  return TypedLaunch<Args...>(impl_);
}
template <class... Args>
TypedGridLaunch<Args...> LaunchPlan::typed_grid() const {
  const std::array<Parameter, sizeof...(Args)> parameters{detail::WireType<Args>::parameter()...};
  detail::check_typed(impl_.get(), parameters, true);
  return TypedGridLaunch<Args...>(impl_);
}

}  // namespace slipway
