// A grid rule by itself: bound to a signature, called with arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/grid_rule.h"
#include "record/layout.h"

namespace slipway::internal {

using Fixed = std::vector<std::pair<std::size_t, Argument>>;

// A rule bound to a kernel of this signature, and calls of it.
class Bound {
 public:
  Bound(const GridRule& rule, std::string_view signature, const Fixed& fixed = {})
      : signature_(parse_signature(signature)), grid_(rule, "k", signature_, fixed) {
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < signature_.size(); ++i) {
      bool is_fixed = false;
      for (const auto& f : fixed) is_fixed |= f.first == i;
      if (is_fixed) continue;
      const std::uint32_t align = alignment_of(signature_[i], AbiDescriptor{});
      at = (at + align - 1) / align * align;
      parameters_.push_back(i);
      offsets_.push_back(at);
      at += size_of(signature_[i], AbiDescriptor{});
    }
    grid_.locate(parameters_, offsets_);
  }
  Extent operator()(const std::vector<Argument>& arguments) const {
    alignas(16) std::byte packed[256]{};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Parameter& p = signature_[parameters_[i]];
      pack_argument("k", parameters_[i], p, size_of(p, AbiDescriptor{}), arguments[i], packed + offsets_[i])
          .throw_if_error();
    }
    return grid_.evaluate(packed);
  }
  const PlanGrid& grid() const { return grid_; }

 private:
  Signature signature_;
  PlanGrid grid_;
  std::vector<std::uint32_t> parameters_, offsets_;
};

}  // namespace slipway::internal
