// A launch in a graph that takes values.
#pragma once

#include <string>
#include <vector>

#include "property/random_values.h"
#include "slipway/slipway.h"

namespace slipway::property {

// One captured launch, some of whose arguments and perhaps its grid take each step's values: from parameters, or
// through an operation.
class CapturedLaunch {
 public:
  // The first `constants` arguments take none.
  CapturedLaunch(Capture& capture, const Stream& stream, const Kernel& kernel, Random& random, const Values& values,
                 const Dim3& grid, std::size_t constants = 0)
      : values_(values), grid_(grid) {
    std::vector<Argument> arguments = arguments_of(values);
    for (std::size_t i = constants; i < values.size(); ++i) {
      if (random.below(3) == 0) continue;
      const std::string name = "p" + std::to_string(i);
      const Parameter& p = values[i].parameter;
      with_type(p, [&](auto type) {
        using T = typename decltype(type)::type;
        const ScalarParameter<T> parameter = capture.parameter<T>(name, load<T>(values[i]));
        arguments[i] = parameter;
        if (random.coin()) {
          const OutputSpec output =
              p.kind == ArgKind::kBytes ? OutputSpec::bytes(p.size_bytes, p.align_bytes) : OutputSpec::argument(p.kind);
          const Operation pass_on = capture.operation("pass_on_" + name, {parameter}, {output},
                                                      [](OperationCall& call) { call.set(0, call.input<T>(0)); });
          arguments[i] = pass_on.output_ref(0);
        }
      });
      taken_.push_back(i);
    }
    LaunchShape shape = shape_of(grid);
    if (random.coin()) {
      takes_grid_ = true;
      const auto x = capture.parameter<std::uint32_t>("x", grid.x), y = capture.parameter<std::uint32_t>("y", grid.y);
      const auto z = capture.parameter<std::uint32_t>("z", grid.z);
      const Operation three = capture.operation("grid", {x, y, z}, {OutputSpec::grid()}, [](OperationCall& call) {
        call.set_grid(0, {call.input<std::uint32_t>(0), call.input<std::uint32_t>(1), call.input<std::uint32_t>(2)});
      });
      shape.grid_from = three.grid(0);
    }
    stream.launch_arguments(kernel, shape, arguments);
  }

  // Other values for all that takes some.
  void change(Random& random) {
    for (const std::size_t i : taken_) values_[i] = random.value(values_[i].parameter);
    if (takes_grid_) grid_ = random.grid();
  }
  void set(const GraphDefinition& definition, StepValues& values, const std::string& prefix) const {
    for (const std::size_t i : taken_) {
      with_type(values_[i].parameter, [&](auto type) {
        using T = typename decltype(type)::type;
        values.set(definition.parameter<T>(prefix + "p" + std::to_string(i)), load<T>(values_[i]));
      });
    }
    if (!takes_grid_) return;
    values.set(definition.parameter<std::uint32_t>(prefix + "x"), grid_.x);
    values.set(definition.parameter<std::uint32_t>(prefix + "y"), grid_.y);
    values.set(definition.parameter<std::uint32_t>(prefix + "z"), grid_.z);
  }
  const Values& values() const { return values_; }
  const Dim3& grid() const { return grid_; }

 private:
  Values values_;
  Dim3 grid_;
  std::vector<std::size_t> taken_;
  bool takes_grid_ = false;
};

}  // namespace slipway::property
