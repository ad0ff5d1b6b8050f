// One function per order; runner.cpp has the table.
#pragma once

#include <memory>

#include "runner.h"

namespace slipway::serving {

std::unique_ptr<Runner> make_sync(std::unique_ptr<BatchModel> model, const Planner& planner);
std::unique_ptr<Runner> make_update_first(std::unique_ptr<BatchModel> model, const Planner& planner);
std::unique_ptr<Runner> make_overlap_1(std::unique_ptr<BatchModel> model, const Planner& planner);
std::unique_ptr<Runner> make_overlap_2(std::unique_ptr<BatchModel> model, const Planner& planner);

}  // namespace slipway::serving
