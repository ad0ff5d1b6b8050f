#include "model_file.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace slipway::llama {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and are copied, not decoded");

constexpr std::uint64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void fail(std::string_view name, const std::string& sentence) {
  throw ModelFileError(std::string(name) + ": " + sentence);
}

void require_positive(std::string_view name, const char* field, std::int32_t value) {
  if (value > 0) return;
  fail(name, std::string(field) + " is " + std::to_string(value) +
                 ", but must be at least 1; the file is damaged or is not in llama2.c's legacy format.");
}

void require_divides(std::string_view name, const char* whole_name, std::int32_t whole, const char* part_name,
                     std::int32_t part) {
  if (whole % part == 0) return;
  fail(name, std::string(whole_name) + " is " + std::to_string(whole) + ", which is not a multiple of " + part_name +
                 " (" + std::to_string(part) + "); use a model whose heads divide evenly.");
}

// Adds up parts, and remembers whether a product or the sum left the range.
class PartSizer {
 public:
  Part next(std::int32_t a, std::int32_t b = 1, std::int32_t c = 1) {
    std::uint64_t size = static_cast<std::uint64_t>(a);
    overflow_ |= __builtin_mul_overflow(size, static_cast<std::uint64_t>(b), &size);
    overflow_ |= __builtin_mul_overflow(size, static_cast<std::uint64_t>(c), &size);
    const std::uint64_t offset = total_;
    overflow_ |= __builtin_add_overflow(total_, size, &total_);
    return Part{static_cast<std::size_t>(offset), static_cast<std::size_t>(size)};
  }

  std::uint64_t total() const { return total_; }
  bool fits() const { return !overflow_ && total_ <= kMaxFloats; }

  // So that no size in bytes, header included, leaves the range of ptrdiff_t.
  static constexpr std::uint64_t kMaxFloats = (std::numeric_limits<std::ptrdiff_t>::max() - 4096) / sizeof(float);

 private:
  std::uint64_t total_ = 0;
  bool overflow_ = false;
};

Config parse_header(std::span<const std::byte, kModelHeaderBytes> header) {
  std::int32_t fields[7];
  std::memcpy(fields, header.data(), kModelHeaderBytes);
  Config config;
  config.dim = fields[0];
  config.hidden_dim = fields[1];
  config.n_layers = fields[2];
  config.n_heads = fields[3];
  config.n_kv_heads = fields[4];
  config.seq_len = fields[6];
  config.separate_classifier = fields[5] < 0;
  // The smallest int32 has no positive twin; it stays negative here, and is refused with the other extents.
  const bool negatable = fields[5] < 0 && fields[5] != std::numeric_limits<std::int32_t>::min();
  config.vocab_size = negatable ? -fields[5] : fields[5];
  return config;
}

void require_header(std::string_view name, std::uint64_t size_bytes) {
  if (size_bytes >= kModelHeaderBytes) return;
  fail(name, "the file has " + std::to_string(size_bytes) + " bytes, but the header alone needs " +
                 std::to_string(kModelHeaderBytes) + "; fetch the file again.");
}

void require_size(std::string_view name, const WeightParts& parts, std::uint64_t size_bytes) {
  const std::uint64_t expected = kModelHeaderBytes + parts.total * sizeof(float);
  if (size_bytes == expected) return;
  const std::string sizes = "the file has " + std::to_string(size_bytes) + " bytes, but its header announces " +
                            std::to_string(expected) + "; ";
  if (size_bytes < expected) fail(name, sizes + "it was cut short or is of another format, so fetch it again.");
  fail(name, sizes + "the " + std::to_string(size_bytes - expected) +
                 " bytes at its end belong to no weight, so it is damaged or of another format.");
}

}  // namespace

std::span<const float> Model::layer(Part which, std::int32_t index) const {
  const std::size_t size = which.size / static_cast<std::size_t>(config.n_layers);
  return std::span(blob).subspan(which.offset + size * static_cast<std::size_t>(index), size);
}

WeightParts lay_out(const Config& config, std::string_view name) {
  require_positive(name, "dim", config.dim);
  require_positive(name, "hidden_dim", config.hidden_dim);
  require_positive(name, "n_layers", config.n_layers);
  require_positive(name, "n_heads", config.n_heads);
  require_positive(name, "n_kv_heads", config.n_kv_heads);
  require_positive(name, "vocab_size (without its sign)", config.vocab_size);
  require_positive(name, "seq_len", config.seq_len);
  require_divides(name, "dim", config.dim, "n_heads", config.n_heads);
  require_divides(name, "n_heads", config.n_heads, "n_kv_heads", config.n_kv_heads);
  if (config.head_size() % 2 != 0) {
    fail(name, "the head size (dim / n_heads) is " + std::to_string(config.head_size()) +
                   ", but must be even, because the rotary embedding turns pairs; use another model.");
  }
  // Kernels count cache elements of one layer, and scores of all heads, in int32.
  const auto require_product = [&](const char* what, std::int32_t extent) {
    const std::uint64_t product = static_cast<std::uint64_t>(extent) * static_cast<std::uint64_t>(config.seq_len);
    if (product <= kMaxInt32) return;
    fail(name, std::string("seq_len * ") + what + " is " + std::to_string(product) + ", but the limit is " +
                   std::to_string(kMaxInt32) + "; use a model with a shorter context.");
  };
  require_product("kv_dim", config.kv_dim());
  require_product("n_heads", config.n_heads);

  PartSizer sizer;
  WeightParts parts;
  const std::int32_t layers = config.n_layers;
  parts.embedding = sizer.next(config.vocab_size, config.dim);
  parts.attention_norm = sizer.next(layers, config.dim);
  parts.wq = sizer.next(layers, config.dim, config.dim);
  parts.wk = sizer.next(layers, config.kv_dim(), config.dim);
  parts.wv = sizer.next(layers, config.kv_dim(), config.dim);
  parts.wo = sizer.next(layers, config.dim, config.dim);
  parts.ffn_norm = sizer.next(layers, config.dim);
  parts.w1 = sizer.next(layers, config.hidden_dim, config.dim);
  parts.w2 = sizer.next(layers, config.dim, config.hidden_dim);
  parts.w3 = sizer.next(layers, config.hidden_dim, config.dim);
  parts.final_norm = sizer.next(config.dim);
  parts.rotary = sizer.next(config.seq_len, config.head_size());
  parts.classifier = config.separate_classifier ? sizer.next(config.vocab_size, config.dim) : parts.embedding;
  if (!sizer.fits()) {
    fail(name, "the extents in its header multiply to more than " + std::to_string(PartSizer::kMaxFloats) +
                   " weights, which no machine can hold; the file is damaged or of another format.");
  }
  parts.total = static_cast<std::size_t>(sizer.total());
  return parts;
}

Model parse_model(std::span<const std::byte> bytes, std::string_view name) {
  require_header(name, bytes.size());
  Model model;
  model.config = parse_header(bytes.first<kModelHeaderBytes>());
  model.parts = lay_out(model.config, name);
  require_size(name, model.parts, bytes.size());
  model.blob.resize(model.parts.total);
  std::memcpy(model.blob.data(), bytes.data() + kModelHeaderBytes, model.parts.total * sizeof(float));
  return model;
}

Model read_model(const std::string& path) {
  const std::uint64_t size_bytes = detail::file_size_bytes(path);
  require_header(path, size_bytes);
  std::byte header[kModelHeaderBytes];
  detail::read_file(path, 0, header);
  Model model;
  model.config = parse_header(header);
  model.parts = lay_out(model.config, path);
  require_size(path, model.parts, size_bytes);
  model.blob.resize(model.parts.total);
  detail::read_file(path, kModelHeaderBytes, std::as_writable_bytes(std::span(model.blob)));
  return model;
}

namespace detail {

std::uint64_t file_size_bytes(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(path, "there is no such file; check the path.");
  if (!std::filesystem::is_regular_file(status)) fail(path, "this is not a regular file; name the file itself.");
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail(path, "its size cannot be read (" + error.message() + "); check its permissions.");
  return size;
}

void read_file(const std::string& path, std::uint64_t offset, std::span<std::byte> destination) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "the file cannot be opened; check its permissions.");
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(destination.data()), static_cast<std::streamsize>(destination.size()));
  if (file && file.gcount() == static_cast<std::streamsize>(destination.size())) return;
  fail(path, "reading " + std::to_string(destination.size()) + " bytes at offset " + std::to_string(offset) +
                 " failed after " + std::to_string(file.gcount()) + "; check the disk, or who else writes the file.");
}

}  // namespace detail
}  // namespace slipway::llama
