// The decode step of a model: where its tensors lie, and which launches it is made of. Every mode of the demo
// follows this one description: `direct` takes the layout and spells the launches out, the others take both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "aligned_memory.h"
#include "model_file.h"
#include "slipway/types.h"

namespace slipway::llama {

enum class BufferId : std::uint8_t { kWeights, kCache, kActivations };
constexpr std::size_t kBufferCount = 3;
constexpr std::array<BufferId, kBufferCount> kBuffers{BufferId::kWeights, BufferId::kCache, BufferId::kActivations};

// "weights", "cache", "activations".
const char* name_of(BufferId buffer);

// A float32 tensor's place. The offset is a multiple of kTensorAlignmentBytes.
struct TensorPlace {
  BufferId buffer = BufferId::kWeights;
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
};

struct LayerLayout {
  TensorPlace attention_norm, wq, wk, wv, wo, ffn_norm, w1, w2, w3;  // weights
  TensorPlace key_cache, value_cache;                                // cache, [seq_len, kv_dim] each
};

// Nothing moves after it was laid out, so a tensor's address is constant for a buffer's life.
struct StepLayout {
  Config config;
  TensorPlace embedding, final_norm, classifier;  // weights; the classifier is the embedding unless separate
  TensorPlace cosines, sines;                     // weights, [seq_len, head_size / 2] each
  std::vector<LayerLayout> layers;
  TensorPlace x;                        // activations from here on; the residual stream, [dim]
  TensorPlace normed, q, mixed, delta;  // [dim] each
  TensorPlace k, v;                     // [kv_dim] each
  TensorPlace scores;                   // [n_heads, seq_len]
  TensorPlace gate, up;                 // [hidden_dim] each
  TensorPlace logits;                   // [vocab_size]
  std::array<std::size_t, kBufferCount> buffer_bytes{};

  std::size_t bytes_of(BufferId buffer) const { return buffer_bytes[static_cast<std::size_t>(buffer)]; }
};

// Throws ModelFileError for extents that are not a model's, std::length_error when a buffer is too large to
// address.
StepLayout lay_out_step(const Config& config);

// Writes the packed weights, rotary tables included, into `destination`, which has bytes_of(kWeights) bytes.
// Gaps are zeroed. The other buffers need no first contents.
void write_weights(const Model& model, const StepLayout& layout, std::span<std::byte> destination);

// What a launch argument may take from the step at run time. These, and nothing else, change between steps.
enum class RunTimeValue : std::uint8_t {
  kToken,           // the token that goes in
  kPosition,        // its position, from 0
  kSequenceLength,  // position + 1: rows of the caches that are in use
};

inline std::int32_t value_of(RunTimeValue value, std::int32_t token, std::int32_t position) {
  switch (value) {
    case RunTimeValue::kToken: return token;
    case RunTimeValue::kPosition: return position;
    case RunTimeValue::kSequenceLength: return position + 1;
  }
  return 0;
}

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite };  // kWrite may leave part of the tensor alone

struct TensorUse {
  TensorPlace place;
  Access access = Access::kRead;
};

// Run-time values are int32 arguments.
using OpArg = std::variant<TensorUse, std::int32_t, float, RunTimeValue>;

// One launch. The arguments are those of the kernel of this name after its block.
struct Op {
  const char* kernel = nullptr;
  Dim3 grid;
  Dim3 block_size;
  std::uint32_t shared_bytes = 0;
  std::vector<OpArg> args;
};

// Launches of one step, in order; each may depend on any earlier one.
std::vector<Op> build_ops(const StepLayout& layout);

constexpr float kNormEpsilon = 1e-5f;

// How the launches are cut into blocks. On the CPU, a block of a matrix product is a few hundred nanoseconds for
// a model of the demo's size; on a GPU, a work item is a row or an element.
constexpr std::uint32_t kMatmulBlock = 32;        // rows
constexpr std::uint32_t kElementwiseBlock = 128;  // elements, or pairs
constexpr std::uint32_t kReductionBlock = 32;     // work items on a GPU; the CPU's kernels take the whole extent

constexpr Dim3 blocks_for(std::int32_t items, std::uint32_t block) {
  return Dim3{(static_cast<std::uint32_t>(items) - 1) / block + 1, 1, 1};
}

// 1 / sqrt(head_size), as every mode passes it.
float attention_scale(const Config& config);

}  // namespace slipway::llama
