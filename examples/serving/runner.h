// The orders in which a step's values, its launches and the waiting for its results may come.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "batch_model.h"
#include "split_plan.h"

namespace slipway::serving {

// Runs steps over many rows. For one thread at a time.
class Runner {
 public:
  virtual ~Runner() = default;

  // Gives the step its rows, and its plans. When it returns, all has been submitted and published.
  virtual void submit(const RowTable& rows) = 0;

  // Waits for the step. The likeliest token after each row, until the next call of submit.
  virtual std::span<const std::int32_t> tokens() = 0;
};

// In the order in which the table shows them; the first is what the others are compared with.
//   sync          all layers are planned, then the launches are submitted, each by a launch plan
//   update-first  the step as a graph, all of whose values are published before its replay is launched
//   overlap-1     its replay is launched first; attention waits for its layer's plan, and nothing else does
//   overlap-2     as overlap-1, and the next replay is launched before this one's results are there: it stands at
//                 its first gate until they are
std::span<const std::string_view> order_names();

// Throws Error, naming the orders there are, for an unknown one.
std::unique_ptr<Runner> make_runner(std::string_view order, const llama::Model& model, const Device& device,
                                    const BatchShape& shape, const Planner& planner);

}  // namespace slipway::serving
