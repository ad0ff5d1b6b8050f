// Writes what fuzzing starts from: small files that are accepted, one folder for each target.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "synthetic.h"

namespace {

using namespace slipway::llama;

std::filesystem::path g_root;

void write(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(g_root / target);
  std::ofstream(g_root / target / name, std::ios::binary) << bytes;
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string model_file(const Config& config) {
  const Model model = make_synthetic_model(config, 1);
  std::string bytes;
  for (const std::int32_t extent :
       {config.dim, config.hidden_dim, config.n_layers, config.n_heads, config.n_kv_heads,
        config.separate_classifier ? -config.vocab_size : config.vocab_size, config.seq_len}) {
    append(bytes, extent);
  }
  bytes.append(reinterpret_cast<const char*>(model.blob.data()), model.blob.size() * sizeof(float));
  return bytes;
}

// The input format of tokenizer_fuzz.cpp.
std::string tokenizer_input(std::string_view text, std::uint8_t more_tokens, std::string_view records, bool whole) {
  std::string bytes;
  append(bytes, more_tokens);
  append(bytes, static_cast<std::uint8_t>(whole ? 0x80 : 0));
  append(bytes, static_cast<std::uint16_t>(text.size()));
  bytes += text;
  bytes += records;
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  g_root = argv[1];
  write("model_file", "tied", model_file({4, 6, 1, 2, 1, 8, 4, false}));
  write("model_file", "separate", model_file({8, 5, 2, 2, 2, 5, 3, true}));

  std::string records;
  for (const std::string_view token : {"a", "b", "ab", " ", " a", "\xC3\xA9"}) {
    append(records, -static_cast<float>(records.size()));
    append(records, static_cast<std::int32_t>(token.size()));
    records += token;
  }
  write("tokenizer", "records", tokenizer_input("ab \xC3\xA9 abba", 6, records, false));
  const std::vector<std::byte> file = make_synthetic_tokenizer_file(kFirstTextToken);
  write("tokenizer", "whole",
        tokenizer_input("text", 0, {reinterpret_cast<const char*>(file.data()), file.size()}, true));

  write("signature", "kinds", "in tensor<f32> align=16, out tensor, i32 range=0..4096, bytes(12,4)");
  write("signature", "scalars", "u64, f16, bf16, f64, bool, i8 range=-1..1, inout tensor<i32>");
  write("grid", "generated", "(-(-n // 128), cdiv(m, 16) * min(k, 65535, 1 + n % 7), 1,)");
  write("grid", "literals", "9223372036854775807 - 5 / 2, (2 + 3) * -4, max(1, 2)");
  std::ifstream saved(SLIPWAY_SOURCE_DIR "/tests/graph/saved.json", std::ios::binary);
  write("saved_graph", "small", {std::istreambuf_iterator<char>(saved), std::istreambuf_iterator<char>()});
  write("update_plan", "entries",
        R"([{"op": "a", "updates": {"n": {"kind": "input", "index": 0}, "lengths": {"kind": "list", "items": [{"kind":
"constant", "value": [1, [2]]}, {"kind": "input", "index": 1}]}, "out": {"kind": "none"}}}, {"op": "a.default", "updates":
{"m": {"kind": "constant", "value": -1e3}, "on": {"kind": "constant", "value": true}, "scale": {"kind": "none"}}}])");
  write("update_plan", "one", R"([{"op": "a", "updates": {"n": {"kind": "constant", "value": 3}}}])");
  write("uri", "options", "cpu:workers=3,inline,affinity=0-3,offset=-5,on=1,empty=");
  return 0;
}
