#include "engine/conditional.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/hex.h"

namespace slipway::internal {

// The value is read into the first bytes of a wider number.
static_assert(std::endian::native == std::endian::little);

const char* name_of(const ConditionRecord& condition) noexcept {
  if ((condition.header.flags & kConditionRepeated) != 0) return "while";
  return (condition.header.flags & kConditionIndexed) != 0 ? "switch" : "if";
}

CopyRecord read_of(const ConditionRecord& condition, std::uint64_t& value) noexcept {
  CopyRecord copy{};
  copy.header = {round_up_record(sizeof copy), RecordKind::kCopy,
                 static_cast<std::uint8_t>(CopyDirection::kDeviceToHost), 0};
  copy.to = reinterpret_cast<std::uint64_t>(&value);
  copy.from = condition.address;
  copy.bytes = value_bytes_of(condition);
  return copy;
}

Result<std::uint32_t> ReplayProgram::choose(std::uint64_t branch, const ConditionRecord& condition, std::uint64_t value,
                                            std::uint64_t step) {
  const std::uint32_t body = body_of(condition, value);
  if ((condition.header.flags & kConditionRepeated) != 0) {
    Branch::Turns& turns = branches_[branch].turns[condition.number];
    if (turns.step != step) turns = {turns.most, step, 0};  // it may have been left by a cancellation
    if (body == condition.body_count) {
      turns.taken = 0;  // it may be entered again, inside another loop
    } else if (turns.taken++ == turns.most) {
      ErrorDetails details;
      details.code = ErrorCode::kTimeout;
      details.name = name();
      details.sequence = step;
      details.submitted = true;
      details.sentence = "while " + std::to_string(condition.number) + " of graph '" + name() +
                         "' had not ended in step " + std::to_string(step) + " after " + std::to_string(turns.most) +
                         " turns, which is its limit (its condition, at " + hex(condition.address) + ", was " +
                         std::to_string(value) +
                         "); the rest of the step was skipped. Give while_node() a higher "
                         "limit, or look for what should make its condition zero";
      return Status(std::move(details));
    }
  }
  return distances_of(condition)[body];
}

}  // namespace slipway::internal
