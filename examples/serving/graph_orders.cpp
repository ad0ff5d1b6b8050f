// The orders that replay a graph. A step has one parameter, its rows. All else are outputs of operations: the grids,
// and for each layer how its attention is split. Each operation has a gate of its own, so that a layer's attention
// waits for the plan of its layer, while everything in front of it runs.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runners.h"

namespace slipway::serving {
namespace {

class GraphRunner : public Runner {
 public:
  GraphRunner(std::unique_ptr<BatchModel> model, const Planner& planner, const InstantiateOptions& options)
      : model_(std::move(model)) {
    Capture capture(model_->stream(), "serving step");
    rows_ = capture.parameter<RowTable>("rows");
    std::map<std::int64_t, GridParameter> row_grids;  // {x, rows of the step}, for each x that a launch has
    for (const Launch& launch : model_->launches()) {
      if (launch.count == Count::kRows && !row_grids.contains(launch.grid_x))
        row_grids[launch.grid_x] = row_grid(capture, launch.grid_x);
    }
    std::vector<Operation> splits;
    for (const Launch& launch : model_->launches()) {
      if (launch.count == Count::kParts) splits.push_back(split(capture, planner, splits.size(), launch.grid_x));
    }

    std::size_t layers_begun = 0;
    for (const Launch& launch : model_->launches()) {
      std::vector<Argument> arguments = launch.arguments;
      LaunchShape shape{.grid = {launch.grid_x}, .block = {launch.block_x, 1, 1}, .shared_bytes = launch.shared_bytes};
      if (launch.takes == Takes::kRows) arguments.push_back(rows_);
      if (launch.takes == Takes::kSplit) arguments.push_back(splits[layers_begun++].output<SplitTable>(0));
      if (launch.count == Count::kRows) shape.grid_from = row_grids.at(launch.grid_x);
      if (launch.count == Count::kParts) shape.grid_from = splits[layers_begun - 1].grid(1);
      model_->stream().launch_arguments(launch.kernel, shape, arguments);
    }
    model_->fetch_tokens();
    graph_ = capture.end().instantiate(options);
    values_ = graph_.values();
  }

  std::span<const std::int32_t> tokens() override {
    graph_.wait(step_);
    return model_->tokens();
  }

 protected:
  const StepValues& values_for(const RowTable& rows) {
    values_.set(rows_, rows);
    return values_;
  }

  std::unique_ptr<BatchModel> model_;
  ExecutableGraph graph_;
  Step step_;

 private:
  GridParameter row_grid(Capture& capture, std::int64_t x) {
    const auto compute = [x](OperationCall& call) { call.set_grid(0, {x, call.input<RowTable>(0).count, 1}); };
    return capture.operation("rows of " + std::to_string(x), {rows_}, {OutputSpec::grid()}, compute).grid(0);
  }

  // Output 0 is the layer's table, output 1 its grid.
  Operation split(Capture& capture, const Planner& planner, std::size_t layer, std::int64_t heads) {
    const auto compute = [planner, layer, heads](OperationCall& call) {
      const SplitTable table = planner(call.input<RowTable>(0), static_cast<std::int32_t>(layer));
      call.set(0, table);
      call.set_grid(1, {heads, table.count, 1});
    };
    return capture.operation("split of layer " + std::to_string(layer), {rows_},
                             {OutputSpec::bytes(sizeof(SplitTable), alignof(SplitTable)), OutputSpec::grid()}, compute);
  }

  ScalarParameter<RowTable> rows_;
  StepValues values_;
};

// graph.launch takes either order: all values first, or the replay first and the values while it runs.
class OneCall final : public GraphRunner {
 public:
  using GraphRunner::GraphRunner;
  void submit(const RowTable& rows) override { step_ = graph_.launch(model_->stream(), values_for(rows)); }
};

class Ahead final : public GraphRunner {
 public:
  using GraphRunner::GraphRunner;
  void submit(const RowTable& rows) override {
    step_ = next_ ? *next_ : graph_.launch_open(model_->stream());
    graph_.publish(step_, values_for(rows));
    // Nobody knows yet how many tokens this step will accept, and with them the rows of the next one.
    next_ = graph_.launch_open(model_->stream());
  }

 private:
  std::optional<Step> next_;  // the graph cancels it in the end
};

}  // namespace

std::unique_ptr<Runner> make_update_first(std::unique_ptr<BatchModel> model, const Planner& planner) {
  const InstantiateOptions options{.depth = 1, .order = slipway::Order::kUpdateFirst};
  return std::make_unique<OneCall>(std::move(model), planner, options);
}
std::unique_ptr<Runner> make_overlap_1(std::unique_ptr<BatchModel> model, const Planner& planner) {
  return std::make_unique<OneCall>(std::move(model), planner, InstantiateOptions{.depth = 1});
}
std::unique_ptr<Runner> make_overlap_2(std::unique_ptr<BatchModel> model, const Planner& planner) {
  return std::make_unique<Ahead>(std::move(model), planner, InstantiateOptions{.depth = 2});
}

}  // namespace slipway::serving
