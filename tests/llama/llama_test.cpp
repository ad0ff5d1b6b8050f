// The decode step: golden texts of the public model, and the description of the step against the direct mode.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "direct.h"
#include "generate.h"
#include "kernels.h"
#include "kernels_opencl.h"
#include "random.h"
#include "step.h"
#include "synthetic.h"

namespace slipway::llama {
namespace {

// The folder of the public model, or an empty path.
std::filesystem::path data_folder() {
  const char* const named = std::getenv("SLIPWAY_DATA");
  const auto root = std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path();
  const std::filesystem::path folder = named != nullptr ? std::filesystem::path(named) : root / "../shared/data";
  return std::filesystem::exists(folder / "stories260K.bin") ? folder : std::filesystem::path();
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Turns an Op's arguments into what a parameter of type T takes.
struct Arguments {
  std::vector<AlignedMemory>& memory;
  std::int32_t token = 0;
  std::int32_t position = 0;

  template <class T>
  T take(const OpArg& arg) const {
    if constexpr (std::is_pointer_v<T>) {
      const auto& [place, access] = std::get<TensorUse>(arg);
      EXPECT_EQ(access == Access::kRead, std::is_const_v<std::remove_pointer_t<T>>);
      return reinterpret_cast<T>(memory[static_cast<std::size_t>(place.buffer)].data() + place.offset_bytes);
    } else if constexpr (std::is_same_v<T, float>) {
      return std::get<float>(arg);
    } else {
      static_assert(std::is_same_v<T, std::int32_t>);
      const auto* const value = std::get_if<RunTimeValue>(&arg);
      return value != nullptr ? value_of(*value, token, position) : std::get<std::int32_t>(arg);
    }
  }
};

using Kernel = std::function<void(const Block&, const Op&, const Arguments&)>;

template <class... Params>
Kernel kernel_of(void (*function)(const Block&, Params...)) {
  return [function](const Block& block, const Op& op, const Arguments& arguments) {
    ASSERT_EQ(op.args.size(), sizeof...(Params)) << op.kernel;
    [&]<std::size_t... I>(std::index_sequence<I...>) { function(block, arguments.take<Params>(op.args[I])...); }
    (std::index_sequence_for<Params...>());
  };
}

const std::map<std::string_view, Kernel>& kernel_table() {
  static const std::map<std::string_view, Kernel> table{
      {"embed", kernel_of(kernels::embed)},       {"rmsnorm", kernel_of(kernels::rmsnorm)},
      {"matmul", kernel_of(kernels::matmul)},     {"rope", kernel_of(kernels::rope)},
      {"store_kv", kernel_of(kernels::store_kv)}, {"attention", kernel_of(kernels::attention)},
      {"add", kernel_of(kernels::add)},           {"silu_mul", kernel_of(kernels::silu_mul)},
  };
  return table;
}

// Follows the description literally, blocks in reverse order.
class Interpreter {
 public:
  explicit Interpreter(const Model& model) : layout_(lay_out_step(model.config)), ops_(build_ops(layout_)) {
    for (const BufferId buffer : kBuffers) memory_.emplace_back(layout_.bytes_of(buffer));
    write_weights(model, layout_, memory_.front().bytes());
  }

  std::span<const float> forward(std::int32_t token, std::int32_t position) {
    const Arguments arguments{memory_, token, position};
    for (const Op& op : ops_) {
      Block block;
      block.grid = op.grid;
      block.size = op.block_size;
      for (std::uint32_t i = op.grid.x; i-- > 0;) {
        block.index.x = i;
        kernel_table().at(op.kernel)(block, op, arguments);
      }
    }
    const float* const logits = arguments.take<const float*>(TensorUse{layout_.logits, Access::kRead});
    return {logits, layout_.logits.size_bytes / sizeof(float)};
  }

 private:
  StepLayout layout_;
  std::vector<Op> ops_;
  std::vector<AlignedMemory> memory_;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Odd extents: no row, head or vocabulary is a multiple of a block, a tile or a vector.
constexpr Config kOdd{42, 77, 3, 7, 7, 301, 40, true};
constexpr Config kGrouped{64, 100, 2, 8, 2, 300, 40, false};

TEST(Golden, DirectPrintsWhatTheReferencePrints) {
  const std::filesystem::path folder = data_folder();
  const char* required = std::getenv("SLIPWAY_REQUIRE");
  ASSERT_FALSE(folder.empty() && required && std::string_view(required).find("data") != std::string_view::npos);
  if (folder.empty()) GTEST_SKIP() << "no stories260K.bin in $SLIPWAY_DATA or ../shared/data";
  const Model model = read_model((folder / "stories260K.bin").string());
  const Tokenizer tokenizer = Tokenizer::read((folder / "tok512.bin").string(), model.config.vocab_size);
  Direct direct(model);
  struct Case {
    const char* prompt;
    std::int32_t steps;
    const char* file;
  };
  for (const Case& golden : {Case{"", 200, "golden-once-200.txt"}, {"Lily and Tom", 256, "golden-lily-256.txt"}}) {
    Sampler greedy(SamplerOptions{});
    std::string text;
    generate(
        tokenizer, greedy, golden.prompt, golden.steps,
        [&](std::int32_t token, std::int32_t position) { return direct.forward(token, position); },
        [&](std::string_view piece) { text += piece; });
    EXPECT_EQ(text + "\n", read_text(folder / golden.file));
  }
}

TEST(Step, DescriptionAndDirectGiveTheSameBits) {
  for (const Config& config : {kOdd, kGrouped}) {
    const Model model = make_synthetic_model(config, 17);
    Direct direct(model);
    Interpreter interpreter(model);
    SplitMix64 random(2);
    for (std::int32_t position = 0; position < config.seq_len; ++position) {
      const auto token = static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(config.vocab_size));
      const std::span<const float> logits = direct.forward(token, position);
      for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
      ASSERT_TRUE(same_bits(logits, interpreter.forward(token, position))) << position;
    }
  }
}

TEST(Step, PlacesAreAlignedDisjointAndWithinTheirBuffers) {
  const StepLayout layout = lay_out_step(kOdd);
  std::map<std::pair<BufferId, std::size_t>, std::size_t> ends;  // by place; equal places are the same tensor
  for (const Op& op : build_ops(layout)) {
    for (const OpArg& arg : op.args) {
      const auto* use = std::get_if<TensorUse>(&arg);
      if (use == nullptr) continue;
      const TensorPlace& place = use->place;
      EXPECT_EQ(place.offset_bytes % kTensorAlignmentBytes, 0u);
      EXPECT_LE(place.offset_bytes + place.size_bytes, layout.bytes_of(place.buffer));
      EXPECT_FALSE(place.buffer == BufferId::kWeights && use->access != Access::kRead) << op.kernel;
      const auto [known, added] = ends.emplace(std::pair(place.buffer, place.offset_bytes), place.size_bytes);
      EXPECT_TRUE(added || known->second == place.size_bytes);
    }
  }
  for (auto it = ends.begin(); std::next(it) != ends.end(); ++it) {
    const auto next = std::next(it);
    if (it->first.first != next->first.first) continue;
    EXPECT_LE(it->first.second + it->second, next->first.second);
  }
}

TEST(Step, OnlyTokenAndPositionChange) {
  const std::vector<Op> ops = build_ops(lay_out_step(kGrouped));
  EXPECT_EQ(ops.size(), 3u + 15u * 2u);
  std::map<RunTimeValue, int> uses;
  for (const Op& op : ops) {
    EXPECT_TRUE(kernel_table().contains(op.kernel)) << op.kernel;
    for (const OpArg& arg : op.args) {
      if (const auto* value = std::get_if<RunTimeValue>(&arg)) ++uses[*value];
    }
  }
  EXPECT_EQ(uses[RunTimeValue::kToken], 1);
  EXPECT_EQ(uses[RunTimeValue::kPosition], 2 * 2);
  EXPECT_EQ(uses[RunTimeValue::kSequenceLength], 2);
}

TEST(Step, RefusesWeightsOfAnotherModelAndImpossibleExtents) {
  const StepLayout layout = lay_out_step(kGrouped);
  std::vector<std::byte> memory(layout.bytes_of(BufferId::kWeights));
  EXPECT_THROW(write_weights(make_synthetic_model(kOdd, 1), layout, memory), std::invalid_argument);
  memory.pop_back();
  EXPECT_THROW(write_weights(make_synthetic_model(kGrouped, 1), layout, memory), std::invalid_argument);
  EXPECT_THROW(lay_out_step(Config{3, 1, 1, 1, 1, 1, 1, false}), ModelFileError);
}

TEST(Kernels, ResultsDoNotDependOnTheGrid) {
  constexpr std::int32_t kRows = 37;
  constexpr std::int32_t kCols = 29;
  SplitMix64 random(4);
  std::vector<float> w(kRows * kCols), x(kCols);
  for (float& value : w) value = random.next_float() - 0.5f;
  for (float& value : x) value = random.next_float() - 0.5f;
  const auto product = [&](std::uint32_t rows_per_block) {
    std::vector<float> out(kRows);
    Block block;
    block.size.x = rows_per_block;
    block.grid = blocks_for(kRows, rows_per_block);
    for (; block.index.x < block.grid.x; ++block.index.x) {
      kernels::matmul(block, out.data(), w.data(), x.data(), kRows, kCols);
    }
    return out;
  };
  const std::vector<float> one_row = product(1);
  double exact = 0;
  for (std::size_t i = 0; i < x.size(); ++i) exact += static_cast<double>(w[i]) * static_cast<double>(x[i]);
  EXPECT_NEAR(static_cast<double>(one_row[0]), exact, 1e-5);
  for (std::uint32_t rows = 2; rows <= kRows + 1; ++rows) EXPECT_TRUE(same_bits(product(rows), one_row)) << rows;
}

TEST(Kernels, OpenClSourceHasTheSameKernels) {
  const std::string source = kKernelsOpenCl;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = source.find("kernel void ", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, kernel_table().size());
  for (const auto& [name, kernel] : kernel_table()) {
    EXPECT_NE(source.find("kernel void " + std::string(name) + "("), std::string::npos) << name;
  }
}

TEST(Direct, RefusesWhatLiesOutsideTheModelAndMayRepeatSteps) {
  const Model model = make_synthetic_model(kGrouped, 1);
  Direct direct(model);
  for (const auto& [token, position] : {std::pair{-1, 0}, {300, 0}, {0, -1}, {0, 40}}) {
    EXPECT_THROW(direct.forward(token, position), std::out_of_range);
  }
  direct.forward(5, 0);
  const std::span<const float> logits = direct.forward(6, 1);
  const std::vector<float> first(logits.begin(), logits.end());
  direct.forward(7, 2);
  direct.forward(5, 0);
  EXPECT_TRUE(same_bits(direct.forward(6, 1), first));
}

TEST(Generate, StopsAtTheStepLimitAndAtTheBeginToken) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(300);
  Sampler greedy(SamplerOptions{});
  std::vector<float> logits(300);
  std::string text;
  std::int32_t begin_at = 1000;
  const auto forward = [&](std::int32_t, std::int32_t position) {
    logits.assign(300, 0.0f);
    logits[position >= begin_at ? kBeginToken : kFirstByteToken + 'x'] = 1.0f;
    return std::span<const float>(logits);
  };
  const auto on_text = [&](std::string_view piece) { text += piece; };
  EXPECT_EQ(generate(tokenizer, greedy, "", 3, forward, on_text), 3);
  EXPECT_EQ(text, "xxx");
  text.clear();
  EXPECT_EQ(generate(tokenizer, greedy, "A", 5, forward, on_text), 5);
  EXPECT_EQ(text, "Axxx");  // the first step prints the space that is dropped
  text.clear();
  begin_at = 2;
  EXPECT_EQ(generate(tokenizer, greedy, "", 10, forward, on_text), 3);
  EXPECT_EQ(text, "xx");
  EXPECT_EQ(generate(tokenizer, greedy, "", 0, forward, on_text), 0);
}

}  // namespace
}  // namespace slipway::llama
