// One function per mode; decoder.cpp has the table.
#pragma once

#include <memory>

#include "decoder.h"

namespace slipway::llama {

std::unique_ptr<Decoder> make_direct(const Model& model, const Device& device);
std::unique_ptr<Decoder> make_general(const Model& model, const Device& device);
std::unique_ptr<Decoder> make_planned(const Model& model, const Device& device);
std::unique_ptr<Decoder> make_graph(const Model& model, const Device& device);
std::unique_ptr<Decoder> make_overlap(const Model& model, const Device& device);

}  // namespace slipway::llama
