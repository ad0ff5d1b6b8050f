// What the benchmark is made of. Each suite adds rows to be timed in turns, or measures by itself and reports.
#pragma once

#include <string>
#include <vector>

#include "harness.h"

namespace bench {

constexpr int kBatchItems = 1000;  // launches or items of one batch

// A goal of this bench and how it came out. Times are judged only on a machine whose processors are near.
struct Goal {
  std::string number;
  std::string what;
  double value = 0;
  double limit = 0;
  bool at_least = false;  // the value must reach the limit, instead of staying under it
  bool timed = true;      // false: judged wherever the processors are
  std::string unit{};
  bool disturbed = false;  // the machine was not quiet enough for this to mean anything

  bool met() const { return at_least ? value >= limit : value <= limit; }
};

struct Figure {  // something measured outside the rows
  std::string group;
  std::string name;
  std::string unit;
  double value = 0;
};

struct Report {
  std::vector<Goal> goals;
  std::vector<Figure> figures;
  std::vector<std::string> skipped;  // one line each
};

void add_floors(Rows& rows, Partner& partner);
void add_launches(Rows& rows);
void add_grids(Rows& rows);
// False, with a line in the report: there is no OpenCL device, or this was built without it.
bool add_opencl(Rows& rows, Report& report);
// Slipway's OpenCL device, with its submission queue and without.
void add_queue(Rows& rows, Report& report);

// Goal 7 as far as plans go.
void measure_device_idle_time(Report& report, int steps);
// Goal 8.
void measure_at_rest(Report& report, int wake_ups);

// Busy kernels by hand on OpenCL, for goal 7: idle ms of steps of `launches` with `busy_us` each; negative where there
// is no device.
double opencl_idle_ms(const std::vector<int>& argument_counts, double busy_us, int steps);

}  // namespace bench
