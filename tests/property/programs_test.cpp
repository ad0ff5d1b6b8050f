// Random programs: run eagerly, planned, from call sites, queued, captured and replayed, they leave the memory that
// plain loops on the host leave, bit for bit. `--programs=N --seed=S` runs N of them instead of the tests, on
// `--devices=URI+URI`, each in two random ways.
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "property/program_runner.h"
#include "support/require.h"

namespace slipway::property {
namespace {

struct Case {
  Program program;
  std::vector<StepCells> steps;
  HostMemoryImage before;
};

void add_cells(const Program& p, Dice& dice, StepCells& cells) {
  for (const ValueKind kind : p.parameters) cells.push_back(dice.cell(kind));
  for (const Node& n : p.nodes)
    if (n.kind == kNested) add_cells(*p.children[n.child], dice, cells);
}

const HostMemoryImage& initial_memory() {
  static const HostMemoryImage image = [] {
    HostMemoryImage m;
    Dice dice(99);
    for (std::size_t b = 0; b < m.buffers.size(); ++b)
      for (std::uint32_t i = 0; i < kElements[b]; ++i) m.buffers[b].push_back(static_cast<std::int32_t>(dice.next()));
    return m;
  }();
  return image;
}

Case make_case(std::uint64_t seed) {
  Dice dice(seed);
  Case c;
  c.program = make_program(dice);
  for (std::uint32_t s = 0, count = 1 + dice.below(5); s < count; ++s) {
    StepCells cells;
    add_cells(c.program, dice, cells);
    for (std::size_t i = 0; s > 0 && i < cells.size(); ++i)
      if (dice.coin(3)) cells[i] = c.steps.back()[i];
    c.steps.push_back(std::move(cells));
  }
  return c;
}

HostMemoryImage wanted_of(const Case& c) {
  HostMemoryImage memory = initial_memory();
  for (const StepCells& step : c.steps) run_on_host(c.program, step, memory);
  return memory;
}

// What differs, in a sentence; empty when nothing does.
std::string difference(const HostMemoryImage& seen, const HostMemoryImage& wanted) {
  for (std::size_t b = 0; b < seen.buffers.size(); ++b) {
    for (std::size_t i = 0; i < seen.buffers[b].size(); ++i) {
      if (seen.buffers[b][i] == wanted.buffers[b][i]) continue;
      return "element " + std::to_string(i) + " of buffer " + std::to_string(b) + " is " +
             std::to_string(seen.buffers[b][i]) + ", wanted " + std::to_string(wanted.buffers[b][i]);
    }
  }
  for (std::size_t s = 0; s < kSums; ++s)
    if (seen.sums[s] != wanted.sums[s]) return "sum " + std::to_string(s) + " of host functions differs";
  return {};
}

// Devices are kept from program to program; one that a program has broken is opened anew.
class Runners {
 public:
  ProgramRunner& at(const std::string& uri) {
    auto& runner = runners_[uri];
    if (!runner) runner = std::make_unique<ProgramRunner>(uri);
    return *runner;
  }
  std::string run(const Case& c, const HostMemoryImage& wanted, const std::string& uri, const Mode& mode,
                  std::uint64_t seed) {
    try {
      Dice dice(seed);
      return difference(at(uri).run(c.program, c.steps, initial_memory(), mode, dice), wanted);
    } catch (const std::exception& error) {
      runners_[uri].reset();
      return error.what();
    }
  }
  void drop(const std::string& uri) { runners_.erase(uri); }

 private:
  std::map<std::string, std::unique_ptr<ProgramRunner>> runners_;
};

std::string text_of(const Source& s) {
  std::ostringstream out;
  if (s.from == Source::From::kParameter) out << "p" << s.index;
  else if (s.from == Source::From::kOutput) out << "o" << s.index << "." << s.output;
  else out << s.fixed[0];
  return out.str();
}
std::string text_of(const Node& n, const Program& p, const std::string& indent);
std::string text_of(const Program& p, const std::string& indent = "  ") {
  std::ostringstream out;
  out << indent << p.name << ": " << p.parameters.size() << " parameters\n";
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    out << indent << "o" << i << " = o" << p.operations[i].same_as << "(";
    for (const Source& s : p.operations[i].inputs) out << " " << text_of(s);
    out << " ), " << p.operations[p.operations[i].same_as].outputs.size() << " outputs\n";
  }
  for (const Node& n : p.nodes) out << text_of(n, p, indent);
  return out.str();
}
std::string text_of(const Node& n, const Program& p, const std::string& indent) {
  std::ostringstream out;
  out << indent << "stream " << n.stream << ": " << kKinds[n.kind].name;
  if (n.kind == kNested) {
    out << "\n" << text_of(*p.children[n.child], indent + "  ");
    return out.str();
  }
  if (n.kind == kConditional) {
    static constexpr const char* kForms[] = {"if", "if else", "while", "switch"};
    out << " (" << kForms[static_cast<int>(n.form)] << "), element " << n.from << " of " << n.resources[1] << " modulo "
        << n.count << "\n";
    for (const auto& body : n.bodies) {
      out << indent << "  body\n";
      for (const Node& inner : body) out << text_of(inner, p, indent + "    ");
    }
    return out.str();
  }
  if (n.kind == kEvent) out << " behind stream " << n.other_stream;
  out << " [" << n.resources[0] << " <- " << n.resources[1] << " " << n.resources[2] << "] a=" << text_of(n.a)
      << " b=" << text_of(n.b) << " t=" << text_of(n.t);
  if (n.grid_operation >= 0) out << " grid=o" << n.grid_operation << "." << n.grid_output;
  else out << " grid=" << n.grid[0] << "x" << n.grid[1];
  out << " at " << n.offset << " from " << n.from << " count " << n.count << " way " << n.way << "\n";
  return out.str();
}

// Takes out steps and nodes for as long as it fails all the same.
Case shrunk(Runners& runners, Case c, const std::string& uri, const Mode& mode, std::uint64_t seed) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto fails = [&](const Case& smaller) {
    for (int i = 0; i < 3; ++i)  // where it depends on time
      if (!runners.run(smaller, wanted_of(smaller), uri, mode, seed).empty()) return true;
    return false;
  };
  for (bool smaller_found = true; smaller_found && std::chrono::steady_clock::now() < end;) {
    smaller_found = false;
    for (std::size_t i = 0; i < c.steps.size() + c.program.nodes.size(); ++i) {
      Case smaller = c;
      if (i < c.steps.size()) {
        if (c.steps.size() == 1) continue;
        smaller.steps.erase(smaller.steps.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        // Nested graphs take their values by their place.
        const std::size_t at = i - c.steps.size();
        std::size_t first = c.program.parameters.size(), taken = 0;
        for (std::size_t n = 0; n <= at; ++n) {
          const Node& node = c.program.nodes[n];
          first += taken;
          taken = node.kind == kNested ? value_count(*c.program.children[node.child]) : 0;
        }
        smaller.program.nodes.erase(smaller.program.nodes.begin() + static_cast<std::ptrdiff_t>(at));
        for (StepCells& cells : smaller.steps) {
          const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(first);
          cells.erase(begin, begin + static_cast<std::ptrdiff_t>(taken));
        }
      }
      if (!fails(smaller)) continue;
      c = std::move(smaller);
      smaller_found = true;
      break;
    }
  }
  return c;
}

std::string report(Runners& runners, const Case& c, const std::string& uri, const Mode& mode, std::uint64_t seed,
                   const std::string& what) {
  const Case small = shrunk(runners, c, uri, mode, seed);
  return "program " + std::to_string(seed) + " on " + uri + " as '" + mode.name + "': " + what + "\nshrunk to " +
         std::to_string(small.steps.size()) + " steps of\n" + text_of(small.program);
}

class Programs : public ::testing::TestWithParam<std::string> {};

void run_all_modes(const std::string& uri, std::uint64_t first, std::uint64_t count) {
  Runners runners;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Case c = make_case(seed);
    const HostMemoryImage wanted = wanted_of(c);
    for (const Mode& mode : kModes) {
      if (!runners.at(uri).can(mode, c.program)) continue;
      const std::string what = runners.run(c, wanted, uri, mode, seed);
      if (!what.empty()) FAIL() << report(runners, c, uri, mode, seed, what);
    }
  }
}

// Where threads hand over to each other it takes longer, and most of what goes wrong goes wrong in-line too.
TEST_P(Programs, LeaveTheSameMemoryInEveryWay) {
  run_all_modes(GetParam(), 1, GetParam().find("inline") != std::string::npos ? 80 : 15);
}

std::string name_of_uri(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Cpu, Programs,
                         ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2", "cpu:inline,blocking"),
                         name_of_uri);

class OpenClPrograms : public ::testing::TestWithParam<std::string> {};

TEST_P(OpenClPrograms, LeaveTheSameMemoryInEveryWay) {
  const auto drivers = list_drivers();
  if (std::none_of(drivers.begin(), drivers.end(), [](auto& d) { return d.name == "opencl" && d.available; }))
    SLIPWAY_SKIP_OR_FAIL("opencl", "no OpenCL device");
  run_all_modes(GetParam(), 1, 4);
}
INSTANTIATE_TEST_SUITE_P(OpenCl, OpenClPrograms, ::testing::Values("opencl:memory=svm", "opencl:memory=buffer"),
                         name_of_uri);

// --- By hand ---

int run_many(std::uint64_t first, std::uint64_t count, const std::vector<std::string>& uris, const std::string& only) {
  Runners runners;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Case c = make_case(seed);
    const HostMemoryImage wanted = wanted_of(c);
    Dice dice(~seed);
    for (int ways = 0; ways < 2;) {
      const std::string& uri = uris[dice.below(uris.size())];
      const Mode& mode = kModes[dice.below(std::size(kModes))];
      if (!runners.at(uri).can(mode, c.program)) continue;
      ++ways;
      if (!only.empty() && only != mode.name) continue;
      const std::string what = runners.run(c, wanted, uri, mode, seed);
      if (what.empty()) continue;
      std::cout << report(runners, c, uri, mode, seed, what) << std::flush;
      if (++failures == 5) return 1;
    }
    if ((seed - first + 1) % 100'000 == 0)
      std::printf("%llu programs in %.0f s\n", static_cast<unsigned long long>(seed - first + 1), seconds()),
          std::fflush(stdout);
  }
  std::printf("%llu programs from seed %llu, each in two ways: %d failed, %.0f s, %.0f programs/s\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first), failures, seconds(),
              static_cast<double>(count) / seconds());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace slipway::property

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::uint64_t programs = 0, seed = 1;
  std::string devices = "cpu:inline+cpu:workers=1", only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = argument.substr(std::min(argument.find('=') + 1, argument.size()));
    if (argument.starts_with("--programs=")) programs = std::stoull(value);
    else if (argument.starts_with("--seed=")) seed = std::stoull(value);
    else if (argument.starts_with("--devices=")) devices = value;
    else if (argument.starts_with("--mode=")) only = value;
  }
  if (programs == 0) return RUN_ALL_TESTS();
  std::vector<std::string> uris(1);
  for (const char c : devices) {
    if (c == '+') uris.emplace_back();
    else uris.back() += c;
  }
  return slipway::property::run_many(seed, programs, uris, only);
}
