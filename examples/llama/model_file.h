// A model in llama2.c's legacy file format, in host memory: its configuration and one blob of weights with
// named parts. Nothing here knows about devices or launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::llama {

// A model or tokenizer file that cannot be used. The message is one sentence or more: the file's name, what is
// wrong, the offending value, the limit, and what to do.
class ModelFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Extents of the model. Values are those of the file, except that the sign of the file's vocabulary size is
// turned into `separate_classifier`.
struct Config {
  std::int32_t dim = 0;
  std::int32_t hidden_dim = 0;
  std::int32_t n_layers = 0;
  std::int32_t n_heads = 0;
  std::int32_t n_kv_heads = 0;
  std::int32_t vocab_size = 0;
  std::int32_t seq_len = 0;
  bool separate_classifier = false;  // false: the classifier's weights are the token embedding

  std::int32_t head_size() const { return dim / n_heads; }
  std::int32_t kv_dim() const { return n_kv_heads * head_size(); }

  friend bool operator==(const Config&, const Config&) = default;
};

// A run of floats inside the blob.
struct Part {
  std::size_t offset = 0;  // in floats
  std::size_t size = 0;    // in floats
};

// The parts in the order of the file. Those of all layers lie together, layer after layer; each matrix is
// [rows = outputs, columns = inputs].
struct WeightParts {
  Part embedding;         // [vocab, dim]
  Part attention_norm;    // [layer, dim]
  Part wq;                // [layer, dim, dim]
  Part wk;                // [layer, kv_dim, dim]
  Part wv;                // [layer, kv_dim, dim]
  Part wo;                // [layer, dim, dim]
  Part ffn_norm;          // [layer, dim]
  Part w1;                // [layer, hidden, dim]
  Part w2;                // [layer, dim, hidden]
  Part w3;                // [layer, hidden, dim]
  Part final_norm;        // [dim]
  Part rotary;            // two tables that nothing uses; the format still carries them
  Part classifier;        // [vocab, dim]; the same part as `embedding` unless separate
  std::size_t total = 0;  // floats in the blob
};

struct Model {
  Config config;
  WeightParts parts;
  std::vector<float> blob;

  std::span<const float> part(Part which) const { return std::span(blob).subspan(which.offset, which.size); }
  // The rows of one layer of a part that has all layers.
  std::span<const float> layer(Part which, std::int32_t index) const;
};

constexpr std::size_t kModelHeaderBytes = 7 * sizeof(std::int32_t);

// Checks the extents (positive, divisible, even head size, products in range) and lays the blob out.
// `name` is what errors call the model. Throws ModelFileError.
WeightParts lay_out(const Config& config, std::string_view name);

// Reads a model from a file's bytes, all of them. Allocates nothing before the size that the header announces
// has been found equal to the size of `bytes`. Throws ModelFileError.
Model parse_model(std::span<const std::byte> bytes, std::string_view name);

// The same from a file, straight into the blob. Throws ModelFileError.
Model read_model(const std::string& path);

namespace detail {

// The size of a regular file. Throws ModelFileError when there is none at `path`.
std::uint64_t file_size_bytes(const std::string& path);

// Reads exactly destination.size() bytes that start at `offset`. Throws ModelFileError.
void read_file(const std::string& path, std::uint64_t offset, std::span<std::byte> destination);

}  // namespace detail

}  // namespace slipway::llama
