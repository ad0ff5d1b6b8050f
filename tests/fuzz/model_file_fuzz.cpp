// Any bytes as a model file: accepted with every part inside the blob, or refused with ModelFileError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipway::llama;
  try {
    const Model model = parse_model(std::as_bytes(std::span(data, size)), "fuzz");
    if (model.blob.size() * sizeof(float) + kModelHeaderBytes != size) std::abort();
    const WeightParts& p = model.parts;
    float sum = 0;
    for (const Part part : {p.embedding, p.attention_norm, p.wq, p.wk, p.wv, p.wo, p.ffn_norm, p.w1, p.w2, p.w3,
                            p.final_norm, p.rotary, p.classifier}) {
      const std::span<const float> weights = model.part(part);
      if (weights.empty()) std::abort();
      sum += weights.front() + weights.back();
    }
    for (std::int32_t layer = 0; layer < model.config.n_layers; ++layer) sum += model.layer(p.w3, layer).back();
    [[maybe_unused]] static volatile float sink;  // so that the reads happen
    sink = sum;
  } catch (const ModelFileError&) {
  }
  return 0;
}
