// A model in the memory of a device, with caches for several requests, and the launches that a step over many rows is
// made of. All orders follow this one description.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model_file.h"
#include "slipway/slipway.h"
#include "tables.h"

namespace slipway::serving {

struct BatchShape {
  std::int32_t slots = 8;   // requests at once
  std::int32_t rows = 40;   // of a step, at most kMaxRows
  std::int32_t split = 64;  // keys in a part of attention at most
};

// What the grid of a launch counts in y; only this changes between steps.
enum class Count : std::uint8_t { kOne, kRows, kParts };

// The table that a launch takes as its last argument, new for each step. Split tables are per layer: those of a step's
// launches are the layers' in order, and the parts counted behind one are that layer's.
enum class Takes : std::uint8_t { kNothing, kRows, kSplit };

struct Launch {
  Kernel kernel;
  std::int64_t grid_x = 1;
  std::int64_t block_x = 1;
  std::int64_t shared_bytes = 0;
  Count count = Count::kRows;
  Takes takes = Takes::kNothing;
  std::vector<Argument> arguments;  // without the table
};

class BatchModel {
 public:
  // Uploads the weights and waits until they are there. Throws Error when the device cannot call C++ functions, and
  // std::invalid_argument when the shape does not fit the tables.
  BatchModel(const llama::Model& model, const Device& device, const BatchShape& shape);

  const Stream& stream() const { return stream_; }
  std::int32_t layers() const { return layers_; }
  std::span<const Launch> launches() const { return launches_; }

  // Submits the copy of the likeliest tokens to the host. It is of all rows, so that a graph can keep it.
  void fetch_tokens();
  std::span<const std::int32_t> tokens() const { return tokens_; }  // once the copy has passed

 private:
  std::int32_t layers_;
  Stream stream_;
  Module module_;
  Memory weights_, caches_, activations_, partial_, rows_, split_, chosen_;
  std::vector<std::int32_t> tokens_;
  std::vector<Launch> launches_;
};

}  // namespace slipway::serving
