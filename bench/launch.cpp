// bench/launch: what a launch costs, beside its floors and its peers. See README.md.
#include <cstdio>

#include "program.h"

namespace {

using namespace bench;

void add(Rows& rows, Partner& partner, Report& report) {
  add_floors(rows, partner);
  add_launches(rows);
  add_grids(rows);
  add_opencl(rows, report);
  add_queue(rows, report);
#if !defined(SLIPWAY_BENCH_BOOST)
  report.skipped.push_back("boost::lockfree::spsc_queue: this was built without Boost");
#endif
}

void judge(const Rows& rows, Report& report) {
  const Row* site = rows.find("cpu, live", "call site, 6 arguments");
  const Row* boost = rows.find("floor", "boost spsc_queue, 64-byte item");
  const Row* opencl = rows.find("OpenCL by hand", "6 arguments");
  if (!site) return;
  if (boost) {
    report.goals.push_back({"1", "a finalized call site, host side, by boost's spsc_queue",
                            site->host_ns() / boost->host_ns(), 1.5, false, true, "x"});
  }
  if (opencl) {
    // Other programs on the machine cost a peer that sleeps and wakes more than they cost us, so its undisturbed
    // tenth is held against our median.
    report.goals.push_back({"2", "OpenCL by hand (fastest tenth), end to end, by a finalized call site",
                            opencl->undisturbed_end_ns() / site->end_ns(), 40, true, true, "x"});
  }
}

void measure(Report& report, const std::string& only, bool quick) {
  const auto wanted = [&](const char* part) { return std::string(part).find(only) != std::string::npos; };
  if (wanted("device idle time")) measure_device_idle_time(report, quick ? 2 : 24);
  if (wanted("at rest")) measure_at_rest(report, quick ? 10 : 300);
  std::puts("instructions, allocations, locks and system calls of a launch: the tests gate.*");
}

}  // namespace

int main(int argc, char** argv) { return run_program({"bench/launch", 30, add, judge, measure}, argc, argv); }
