// Kernels by number of arguments: up to three aligned f32 tensors, then i32 scalars, with everything needed to launch
// them in every way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace bench {

// Written by whoever runs kernels, read when the stream is idle.
inline std::uint64_t g_runs = 0;
inline std::uint64_t g_sum = 0;

enum class Way { kGeneral, kPlanned, kTyped, kSite };

class Case {
 public:
  virtual ~Case() = default;
  // Binds the kernel to a stream's device.
  virtual void prepare(const slipway::Device& device, const slipway::Stream& stream) = 0;
  virtual void launch(Way way, int count) const = 0;
  virtual std::uint64_t sum_of_one() const = 0;  // what one run adds to g_sum
  virtual std::size_t arguments() const = 0;
};

template <std::size_t>
using TensorType = slipway::Tensor<float>;
template <std::size_t>
using TensorPointer = float*;
template <std::size_t>
using Scalar = std::int32_t;

template <class Tensors, class Scalars>
class CaseOf;

template <std::size_t... T, std::size_t... S>
class CaseOf<std::index_sequence<T...>, std::index_sequence<S...>> final : public Case {
 public:
  void prepare(const slipway::Device& device, const slipway::Stream& stream) override {
    stream_ = stream;
    module_ = device.load_table({slipway::kernel<&CaseOf::run>("run")});
    const char* separator = "";
    std::string signature;
    for (std::size_t i = 0; i < sizeof...(T); ++i, separator = ", ") signature += separator + std::string(kTensor);
    for (std::size_t i = 0; i < sizeof...(S); ++i, separator = ", ") signature += separator + std::string("i32");
    kernel_ = module_.kernel("run", slipway::parse_signature(signature));
    slipway::PlanOptions options;
    options.shape.emplace();
    plan_ = slipway::LaunchPlan::create(kernel_, options);
    typed_ = plan_.typed<TensorType<T>..., Scalar<S>...>();
    site_ = slipway::CallSite::create(kernel_, options).template typed<TensorType<T>..., Scalar<S>...>();
    memory_ = device.allocate(4096);
    for (std::size_t i = 0; i < 3; ++i) tensors_[i] = memory_.tensor<float>(i * 64);
    for (std::size_t i = 0; i < sizeof...(S); ++i) scalars_[i] = static_cast<std::int32_t>(i + 1);
  }

  void launch(Way way, int count) const override {
    switch (way) {
      case Way::kGeneral:
        for (int i = 0; i < count; ++i) stream_.launch(kernel_, slipway::LaunchShape{}, tensors_[T]..., scalars_[S]...);
        return;
      case Way::kPlanned:
        for (int i = 0; i < count; ++i) plan_.launch(stream_, tensors_[T]..., scalars_[S]...);
        return;
      case Way::kTyped:
        for (int i = 0; i < count; ++i) typed_(stream_, tensors_[T]..., scalars_[S]...);
        return;
      case Way::kSite:
        for (int i = 0; i < count; ++i) site_(stream_, tensors_[T]..., scalars_[S]...);
        return;
    }
  }
  std::uint64_t sum_of_one() const override {
    return static_cast<std::uint64_t>((scalars_[S] + ... + 0)) + sizeof...(T);
  }
  std::size_t arguments() const override { return sizeof...(T) + sizeof...(S); }

 private:
  static constexpr const char* kTensor = "tensor<f32> align=16";
  static void run(TensorPointer<T>... tensors, Scalar<S>... scalars) {
    ++g_runs;
    g_sum += static_cast<std::uint64_t>((scalars + ... + 0)) + (std::uint64_t{tensors != nullptr} + ... + 0);
  }

  slipway::Stream stream_;
  slipway::Module module_;
  slipway::Kernel kernel_;
  slipway::LaunchPlan plan_;
  slipway::TypedLaunch<TensorType<T>..., Scalar<S>...> typed_;
  slipway::TypedSite<TensorType<T>..., Scalar<S>...> site_;
  slipway::Memory memory_;
  slipway::Tensor<float> tensors_[3];
  std::int32_t scalars_[sizeof...(S) + 1]{};
};

template <std::size_t kArguments>
std::unique_ptr<Case> make_case() {
  constexpr std::size_t kTensors = std::min<std::size_t>(kArguments, 3);
  return std::make_unique<
      CaseOf<std::make_index_sequence<kTensors>, std::make_index_sequence<kArguments - kTensors>>>();
}

}  // namespace bench
