// The modes of the demo: the same step, submitted in different ways.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"

namespace slipway {
class Device;
}

namespace slipway::llama {

// Runs decode steps of one model. For one thread at a time.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Submits the step for a token at a position, as a program that has other things to do would: without waiting
  // for it (on devices that run in-line, and in mode `direct`, the work is done when it returns).
  virtual void submit(std::int32_t token, std::int32_t position) = 0;

  // Waits for the last step. The logits are valid until the next call of submit.
  virtual std::span<const float> logits() = 0;

  // Launches that one step is made of.
  virtual std::size_t launches_per_step() const = 0;
};

// In the order in which the table shows them; the first is the floor that the others are compared with.
//   direct   a plain loop that calls the kernels, without Slipway
//   general  every launch through the general path: looked up, checked and packed each time
//   planned  launch plans with typed handles: a launch writes only its run-time arguments
//   graph    the step captured once; a step's values are published, then the graph is replayed
//   overlap  the same graph, whose next replay is launched before its values are known, and waits for them at a gate
std::span<const std::string_view> mode_names();

// Makes the decoder of a mode. `device` is not used by `direct`. Throws slipway::Error, naming the modes there
// are, for an unknown one.
std::unique_ptr<Decoder> make_decoder(std::string_view mode, const Model& model, const Device& device);

}  // namespace slipway::llama
