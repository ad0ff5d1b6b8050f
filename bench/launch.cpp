// bench/launch: what a launch costs, beside its floors and its peers. See README.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "suites.h"

namespace {

using namespace bench;

double load_average() {
  std::ifstream file("/proc/loadavg");
  double value = 0;
  file >> value;
  return value;
}

const char* word_for(double ping_pong) { return ping_pong < kNear_ns ? "near" : "far"; }

void print_rows(const Rows& rows) {
  std::string group;
  std::printf("\n%-48s %10s %10s\n", "ns per launch or item (medians)", "host", "end to end");
  for (const Row& row : rows.all()) {
    if (row.group != group) std::printf("%s\n", row.group.c_str());
    group = row.group;
    std::printf("  %-46s %10.1f", row.name.c_str(), row.host_ns());
    if (row.end.empty()) std::puts("");
    else std::printf(" %10.1f\n", row.end_ns());
  }
}

void judge_rows(const Rows& rows, Report& report) {
  const Row* typed = rows.find("cpu, live", "typed, 6 arguments");
  const Row* boost = rows.find("floor", "boost spsc_queue, 64-byte item");
  const Row* opencl = rows.find("OpenCL by hand", "6 arguments");
  if (!typed) return;
  if (boost) {
    report.goals.push_back({"1", "typed launch, host side, by boost's spsc_queue", typed->host_ns() / boost->host_ns(),
                            1.5, false, true, "x"});
  }
  if (opencl) {
    // Other programs on the machine cost a peer that sleeps and wakes more than they cost us, so its undisturbed
    // tenth is held against our median.
    report.goals.push_back({"2", "OpenCL by hand (fastest tenth), end to end, by a typed launch",
                            opencl->undisturbed_end_ns() / typed->end_ns(), 40, true, true, "x"});
  }
}

void print_goals(const Report& report, bool near) {
  std::printf("\n%-6s%-62s %10s %12s\n", "goal", "", "measured", "required");
  for (const Goal& goal : report.goals) {
    const char* verdict = goal.disturbed        ? "not judged: disturbed"
                          : goal.timed && !near ? "not judged: far"
                          : goal.met()          ? "met"
                                                : "not met";
    std::printf("%-6s%-62s %7.2f %-2s %s %6.2f %-2s  %s\n", goal.number.c_str(), goal.what.c_str(), goal.value,
                goal.unit.c_str(), goal.at_least ? ">=" : "<=", goal.limit, goal.unit.c_str(), verdict);
  }
  std::puts("1     instructions, allocations, locks and system calls of a launch: the tests gate.*");
}

void write_json(const std::string& path, const Rows& rows, const Report& report, double ping_pong, bool near) {
  nlohmann::json out{{"ping_pong_ns", ping_pong}, {"near", near}, {"load_average", load_average()}};
  for (const Row& row : rows.all()) {
    nlohmann::json entry{
        {"group", row.group}, {"name", row.name}, {"host_ns", row.host_ns()}, {"samples", row.host.size()}};
    if (!row.end.empty())
      entry.update({{"end_to_end_ns", row.end_ns()}, {"fastest_tenth_ns", row.undisturbed_end_ns()}});
    out["rows"].push_back(std::move(entry));
  }
  for (const Figure& f : report.figures) {
    out["figures"].push_back({{"group", f.group}, {"name", f.name}, {"unit", f.unit}, {"value", f.value}});
  }
  for (const Goal& g : report.goals) {
    nlohmann::json entry{{"goal", g.number}, {"what", g.what},         {"value", g.value},
                         {"limit", g.limit}, {"at_least", g.at_least}, {"unit", g.unit}};
    if (!g.disturbed && (!g.timed || near)) entry["met"] = g.met();
    out["goals"].push_back(std::move(entry));
  }
  out["skipped"] = report.skipped;
  std::ofstream file(path);
  file << out.dump(2) << '\n';
  if (!file) throw std::runtime_error("could not write '" + path + "'");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What a launch costs, beside its floors and its peers");
  std::string json, only;
  int rounds = 30, steps = 15, wake_ups = 300;
  bool quick = false;
  app.add_option("--json", json, "also write the figures to this file");
  app.add_option("--rounds", rounds, "turns of every row")->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--only", only,
                 "only what has this in its name: rows by 'group: name', 'device idle time', 'at rest'");
  app.add_flag("--quick", quick, "few turns: to see that everything runs, not for figures");
  CLI11_PARSE(app, argc, argv);
  if (quick) rounds = 2, steps = 2, wake_ups = 10;

  try {
    Sides::choose();
    Partner partner;
    const double first = ping_pong_ns(partner);
    std::printf("one way of a cache line: %.0f ns (%s); %u processors, load average %.2f; %s\n", first, word_for(first),
                std::thread::hardware_concurrency(), load_average(),
                Sides::chosen() ? "submitter and worker each on its own" : "one processor: nothing here means much");
    Rows rows;
    Report report;
    add_floors(rows, partner);
    add_launches(rows);
    add_opencl(rows, report);
#if !defined(SLIPWAY_BENCH_BOOST)
    report.skipped.push_back("boost::lockfree::spsc_queue: this was built without Boost");
#endif
    rows.keep(only);
    rows.run(rounds, partner);
    if (!rows.all().empty()) print_rows(rows);
    judge_rows(rows, report);
    const auto wanted = [&](const char* part) { return std::string(part).find(only) != std::string::npos; };
    if (wanted("device idle time")) measure_device_idle_time(report, steps);
    if (wanted("at rest")) measure_at_rest(report, wake_ups);

    const double ping_pong = median(rows.ping_pong()), last = ping_pong_ns(partner);
    const bool near = ping_pong < kNear_ns;
    std::printf(
        "\none way of a cache line: %.0f ns at first, %.0f in the middle (%s), %.0f at last; load average %.2f\n",
        first, ping_pong, word_for(ping_pong), last, load_average());
    for (const std::string& line : report.skipped) std::printf("skipped: %s\n", line.c_str());
    print_goals(report, near);
    if (!json.empty()) write_json(json, rows, report, ping_pong, near);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench/launch: %s\n", e.what());
    return 1;
  }
}
