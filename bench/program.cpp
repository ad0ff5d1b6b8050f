#include "program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace bench {
namespace {

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

int run_program(const Program& program, int argc, char** argv) {
  CLI::App app(program.title);
  std::string json, only;
  int rounds = program.rounds;
  bool quick = false;
  app.add_option("--json", json, "also write the figures to this file");
  app.add_option("--rounds", rounds, "turns of every row")->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--only", only, "only what has this in its name ('group: name')");
  app.add_flag("--quick", quick, "few turns: to see that everything runs, not for figures");
  CLI11_PARSE(app, argc, argv);
  if (quick) rounds = 2;

  try {
    Sides::choose();
    Partner partner;
    const double first = ping_pong_ns(partner);
    std::printf("one way of a cache line: %.0f ns (%s); %u processors, load average %.2f; %s\n", first, word_for(first),
                std::thread::hardware_concurrency(), load_average(),
                Sides::chosen() ? "submitter and worker each on its own" : "one processor: nothing here means much");
    Rows rows;
    Report report;
    program.add(rows, partner, report);
    rows.keep(only);
    rows.run(rounds, partner);
    if (!rows.all().empty()) print_rows(rows);
    if (program.judge) program.judge(rows, report);
    if (program.measure) program.measure(report, only, quick);

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
    std::fprintf(stderr, "%s: %s\n", program.title, e.what());
    return 1;
  }
}

}  // namespace bench
