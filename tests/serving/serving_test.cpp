// All orders, on real devices: their texts are those of plain decoding, byte for byte.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "serve.h"
#include "slipway/slipway.h"
#include "synthetic.h"

namespace slipway::serving {
namespace {

using std::chrono::microseconds;

// Small enough for a sanitizer, and long enough for several parts, drafts and an early end of some requests.
const llama::Model& small_model() {
  static const llama::Model model = [] {
    llama::Config config;
    config.dim = 32, config.hidden_dim = 48, config.n_layers = 3, config.n_heads = 4;
    config.n_kv_heads = 2, config.vocab_size = 400, config.seq_len = 64;
    return llama::make_synthetic_model(config, 7);
  }();
  return model;
}

const llama::Tokenizer& small_tokenizer() {
  static const llama::Tokenizer tokenizer = llama::make_synthetic_tokenizer(small_model().config.vocab_size);
  return tokenizer;
}

const std::vector<Request> kRequests{{"", 40}, {"the dog ran", 64}, {"a", 1}, {"baba baba baba", 33}, {"to do", 50}};

class Serving : public ::testing::TestWithParam<std::string> {
 protected:
  Outcome run(std::string_view order, std::size_t draft, std::int32_t split, const Planner& planner) {
    const auto requests = static_cast<std::int32_t>(kRequests.size());
    const BatchShape shape{requests, requests * static_cast<std::int32_t>(draft + 1), split};
    const auto runner = make_runner(order, small_model(), device_, shape, planner);
    return serve(small_tokenizer(), kRequests, draft, *runner);
  }
  const std::vector<std::string>& expected() {
    static const auto texts = serve_plain(small_model(), small_tokenizer(), kRequests).texts;
    return texts;
  }

  Device device_ = Device::open(GetParam());
};

TEST_P(Serving, GivesTheTextsOfPlainDecodingInAllOrders) {
  for (const std::string_view order : order_names()) {
    for (const std::size_t draft : {0u, 3u}) {
      for (const std::int32_t split : {8, 64}) {
        const Outcome outcome = run(order, draft, split, make_planner(split));
        EXPECT_EQ(outcome.texts, expected()) << order << ", " << draft << " drafts, split " << split;
        if (draft > 0) {
          EXPECT_GT(outcome.accepted, 0u);
        }
        EXPECT_LT(outcome.steps, draft > 0 ? 64u : 65u);
      }
    }
  }
}

// The replay stands at each layer's gate for a while, and then takes this step's plan.
TEST_P(Serving, AttentionWaitsForSlowPlans) {
  for (const std::string_view order : order_names())
    EXPECT_EQ(run(order, 3, 8, make_planner(8, microseconds(500))).texts, expected()) << order;
}

// What the comparison of texts is worth: with the plans of the step before, as behind a gate that opens too early,
// they differ.
TEST_P(Serving, TextsTellStalePlans) {
  for (const std::string_view order : order_names()) {
    const auto kept = std::make_shared<std::vector<SplitTable>>(3);
    const Planner stale = [kept, plan = make_planner(8)](const RowTable& rows, std::int32_t layer) {
      return std::exchange((*kept)[static_cast<std::size_t>(layer)], plan(rows, layer));
    };
    EXPECT_NE(run(order, 3, 8, stale).texts, expected()) << order;
  }
}

// Only overlap-2 launches a replay before the last kernel of the one before it has begun. In-line, launching and
// running are one.
TEST_P(Serving, LaunchesAheadInOneOrderOnly) {
  if (device_.info().workers == 0) return;
  for (const std::string_view order : {"update-first", "overlap-1", "overlap-2"}) {
    device_.start_timeline();
    (void)run(order, 0, 8, make_planner(8));
    std::map<std::uint64_t, std::int64_t> submitted_ns, last_kernel_ns;  // by the replay's number in its stream
    for (const TimelineEntry& entry : device_.stop_timeline()) {
      if (entry.kind == TimelineEntry::Kind::kNode && entry.name == "choose")
        last_kernel_ns[entry.sequence] = entry.started_ns;
      if (entry.kind == TimelineEntry::Kind::kSubmission && entry.name == "serving step")
        submitted_ns[entry.sequence] = entry.submitted_ns;
    }
    EXPECT_EQ(last_kernel_ns.size(), 64u) << order;
    std::size_t ahead = 0;
    for (const auto& [replay, begun_ns] : last_kernel_ns) {
      const auto next = submitted_ns.find(replay + 1);
      if (next != submitted_ns.end() && next->second < begun_ns) ++ahead;
    }
    EXPECT_EQ(ahead > 0, order == "overlap-2") << order << ", " << ahead << " steps";
  }
}

TEST_P(Serving, RefusesWhatDoesNotFit) {
  const Planner planner = make_planner(8);
  EXPECT_THROW((void)make_runner("fastest", small_model(), device_, {1, 1, 8}, planner), Error);
  EXPECT_THROW((void)make_runner("sync", small_model(), device_, {1, 129, 8}, planner), std::invalid_argument);
  EXPECT_THROW((void)make_runner("sync", small_model(), device_, {8, 40, 1}, planner), std::invalid_argument);
  EXPECT_THROW((void)make_runner("sync", small_model(), Device::open("null"), {1, 1, 8}, planner), Error);
}

std::filesystem::path data_folder() {
  const char* const named = std::getenv("SLIPWAY_DATA");
  const std::filesystem::path folder = named ? named : std::filesystem::path(SLIPWAY_SOURCE_DIR) / "../shared/data";
  return std::filesystem::exists(folder / "stories260K.bin") ? folder : std::filesystem::path();
}

// The public model's own texts, two requests at once.
TEST_P(Serving, GivesThePublicModelsTexts) {
  const std::filesystem::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "no stories260K.bin in $SLIPWAY_DATA or ../shared/data";
  const auto golden = [&](const char* name) {
    std::ifstream file(data / name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const llama::Model model = llama::read_model((data / "stories260K.bin").string());
  const auto tokenizer = llama::Tokenizer::read((data / "tok512.bin").string(), model.config.vocab_size);
  const std::vector<Request> requests{{"", 200}, {"Lily and Tom", 256}};
  for (const std::string_view order : order_names()) {
    const auto runner = make_runner(order, model, device_, {2, 10, 64}, make_planner(64));
    const Outcome outcome = serve(tokenizer, requests, 4, *runner);
    EXPECT_EQ(outcome.texts[0] + "\n", golden("golden-once-200.txt")) << order;
    EXPECT_EQ(outcome.texts[1] + "\n", golden("golden-lily-256.txt")) << order;
    EXPECT_LT(outcome.steps, 256u) << order;
  }
}

INSTANTIATE_TEST_SUITE_P(On, Serving, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](auto& device) {
                           std::string name = device.param.substr(4);
                           std::erase(name, '=');
                           return name;
                         });

}  // namespace
}  // namespace slipway::serving
