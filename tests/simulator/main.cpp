// The tests, or with --schedules N [--seed S] [--program NAME] as many schedules of the programs, in turn.
// --choices LIST, with --program: that one schedule.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "simulator/world.h"

namespace slipway::simulator {
namespace {

int run_many(std::uint64_t schedules, std::uint64_t seed, const std::string& only) {
  std::vector<Program> chosen;
  for (const Program& program : programs()) {
    if (only.empty() || only == program.name) chosen.push_back(program);
  }
  if (chosen.empty()) {
    std::printf("there is no program '%s'\n", only.c_str());
    return 2;
  }
  const std::uint64_t each = (schedules + chosen.size() - 1) / chosen.size();
  std::uint64_t total = 0, events = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (const Program& program : chosen) {
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<World> world = program.make();
    Choices choices;
    for (std::uint64_t i = 0; i < each; ++i) {
      choices.seed(seed + i);
      const std::string problem = world->run(choices);
      if (problem.empty()) continue;
      std::printf("%s, schedule %llu: %s\n", program.name, static_cast<unsigned long long>(i), problem.c_str());
      give_up(std::move(world));
      return 1;
    }
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-40s %10llu schedules, %7.0f a second, %5.1f turns each\n", program.name,
                static_cast<unsigned long long>(each), static_cast<double>(each) / s,
                static_cast<double>(world->simulation.turns()) / static_cast<double>(each));
    std::fflush(stdout);
    total += each;
    events += world->simulation.checker().events();
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu schedules, seeds %llu to %llu, %llu events checked, %.0f s\n",
              static_cast<unsigned long long>(total), static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed + each - 1), static_cast<unsigned long long>(events), s);
  return 0;
}

int run_one(const std::string& list, const std::string& only) {
  std::vector<std::uint32_t> choices;
  std::istringstream in(list);
  for (std::string number; std::getline(in, number, ',');) {
    choices.push_back(static_cast<std::uint32_t>(std::strtoul(number.c_str(), nullptr, 10)));
  }
  for (const Program& program : programs()) {
    if (only != program.name) continue;
    std::unique_ptr<World> world = program.make();
    Choices given;
    given.list(std::move(choices));
    const std::string problem = world->run(given);
    std::printf("%s: %s\n", program.name, problem.empty() ? "all went well" : problem.c_str());
    if (!problem.empty()) give_up(std::move(world));
    return problem.empty() ? 0 : 1;
  }
  std::printf("there is no program '%s'\n", only.c_str());
  return 2;
}

}  // namespace
}  // namespace slipway::simulator

int main(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) == 0 && std::strncmp(argv[i], "--gtest", 7) != 0) {
      given[argv[i] + 2] = argv[i + 1];
      ++i;
    }
  }
  if (given.count("choices")) return slipway::simulator::run_one(given["choices"], given["program"]);
  if (given.count("schedules")) {
    const std::uint64_t seed = given.count("seed") ? std::strtoull(given["seed"].c_str(), nullptr, 10) : 1;
    return slipway::simulator::run_many(std::strtoull(given["schedules"].c_str(), nullptr, 10), seed, given["program"]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
