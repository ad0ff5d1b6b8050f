#include "decoder.h"

#include <array>
#include <string>

#include "direct.h"
#include "modes.h"
#include "slipway/error.h"
#include "step.h"

namespace slipway::llama {
namespace {

class DirectDecoder final : public Decoder {
 public:
  explicit DirectDecoder(const Model& model)
      : direct_(model), launches_(build_ops(lay_out_step(model.config)).size()) {}

  void submit(std::int32_t token, std::int32_t position) override { logits_ = direct_.forward(token, position); }
  std::span<const float> logits() override { return logits_; }
  std::size_t launches_per_step() const override { return launches_; }

 private:
  Direct direct_;
  std::size_t launches_;
  std::span<const float> logits_;
};

struct Mode {
  std::string_view name;
  std::unique_ptr<Decoder> (*make)(const Model& model, const Device& device);
};
constexpr std::array kModes{Mode{"direct", make_direct}, Mode{"general", make_general}, Mode{"planned", make_planned},
                            Mode{"graph", make_graph}, Mode{"overlap", make_overlap}};

}  // namespace

std::unique_ptr<Decoder> make_direct(const Model& model, const Device&) {
  return std::make_unique<DirectDecoder>(model);
}

std::span<const std::string_view> mode_names() {
  static const auto kNames = [] {
    std::array<std::string_view, kModes.size()> names;
    for (std::size_t i = 0; i < kModes.size(); ++i) names[i] = kModes[i].name;
    return names;
  }();
  return kNames;
}

std::unique_ptr<Decoder> make_decoder(std::string_view mode, const Model& model, const Device& device) {
  std::string names;
  for (const Mode& m : kModes) {
    if (m.name == mode) return m.make(model, device);
    names += (names.empty() ? "" : ", ") + std::string(m.name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no mode '" + std::string(mode) + "'; the modes are " + names + " and all");
}

}  // namespace slipway::llama
