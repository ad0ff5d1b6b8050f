#include "runner.h"

#include <array>
#include <string>
#include <utility>

#include "runners.h"

namespace slipway::serving {
namespace {

struct Order {
  std::string_view name;
  std::unique_ptr<Runner> (*make)(std::unique_ptr<BatchModel> model, const Planner& planner);
};
constexpr std::array kOrders{Order{"sync", make_sync}, Order{"update-first", make_update_first},
                             Order{"overlap-1", make_overlap_1}, Order{"overlap-2", make_overlap_2}};

}  // namespace

std::span<const std::string_view> order_names() {
  static const auto kNames = [] {
    std::array<std::string_view, kOrders.size()> names;
    for (std::size_t i = 0; i < kOrders.size(); ++i) names[i] = kOrders[i].name;
    return names;
  }();
  return kNames;
}

std::unique_ptr<Runner> make_runner(std::string_view order, const llama::Model& model, const Device& device,
                                    const BatchShape& shape, const Planner& planner) {
  std::string names;
  for (const Order& o : kOrders) {
    if (o.name == order) return o.make(std::make_unique<BatchModel>(model, device, shape), planner);
    names += std::string(o.name) + ", ";
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no order '" + std::string(order) + "'; the orders are " + names + "and all");
}

}  // namespace slipway::serving
