// Order `sync`: first every table of the step, then its launches.
#include <utility>
#include <vector>

#include "runners.h"

namespace slipway::serving {
namespace {

// Each launch is planned once: what is no tensor is fixed, and only grids and tables are new in each step.
struct Planned {
  LaunchPlan plan;
  std::int64_t grid_x = 1;
  Count count = Count::kOne;
  Takes takes = Takes::kNothing;
  std::vector<Argument> arguments;
};

class Sync final : public Runner {
 public:
  Sync(std::unique_ptr<BatchModel> model, const Planner& planner) : model_(std::move(model)), planner_(planner) {
    for (const Launch& launch : model_->launches()) {
      PlanOptions options;
      options.block = {launch.block_x, 1, 1};
      options.shared_bytes = launch.shared_bytes;
      Planned planned{{}, launch.grid_x, launch.count, launch.takes, {}};
      for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
        const Argument& argument = launch.arguments[i];
        if (argument.category() == Argument::Category::kTensor) planned.arguments.push_back(argument);
        else options.fixed.emplace_back(i, argument);
      }
      planned.plan = LaunchPlan::create(launch.kernel, options);
      launches_.push_back(std::move(planned));
    }
    splits_.resize(static_cast<std::size_t>(model_->layers()));
  }

  void submit(const RowTable& rows) override {
    for (std::int32_t layer = 0; layer < model_->layers(); ++layer)
      splits_[static_cast<std::size_t>(layer)] = planner_(rows, layer);

    std::size_t next = 0;
    std::int64_t parts = 0;
    for (const Planned& launch : launches_) {
      arguments_ = launch.arguments;
      if (launch.takes == Takes::kRows) arguments_.push_back(Argument::bytes_of(rows));
      if (launch.takes == Takes::kSplit) {
        parts = splits_[next].count;
        arguments_.push_back(Argument::bytes_of(splits_[next++]));
      }
      const std::int64_t y = launch.count == Count::kOne ? 1 : launch.count == Count::kRows ? rows.count : parts;
      launch.plan.launch_arguments(model_->stream(), Extent{launch.grid_x, y, 1}, arguments_);
    }
    model_->fetch_tokens();
  }

  std::span<const std::int32_t> tokens() override {
    model_->stream().synchronize();
    return model_->tokens();
  }

 private:
  std::unique_ptr<BatchModel> model_;
  Planner planner_;
  std::vector<Planned> launches_;
  std::vector<SplitTable> splits_;
  std::vector<Argument> arguments_;
};

}  // namespace

std::unique_ptr<Runner> make_sync(std::unique_ptr<BatchModel> model, const Planner& planner) {
  return std::make_unique<Sync>(std::move(model), planner);
}

}  // namespace slipway::serving
