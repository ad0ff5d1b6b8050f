#include "graph/record_forms.h"

#include <cstddef>
#include <cstring>

#include "record/kernel_code.h"

namespace slipway::internal {
namespace {

void visit_launch(const RecordHeader& record, const AddressVisit& visit) {
  const auto& launch = record_cast<LaunchRecord>(record);
  std::int32_t index = 0;
  for (const ArgumentSlot& slot : launch.code->layout.slots) {
    if (slot.kind == ArgKind::kTensor) {
      AddressSite site{record.payload_offset + slot.offset,
                       0,
                       0,
                       launch.code->signature[static_cast<std::size_t>(index)].pointer_alignment,
                       index,
                       nullptr};
      std::memcpy(&site.address, arguments_of(launch) + slot.offset, sizeof site.address);
      visit(site);
    }
    ++index;
  }
}

void visit_copy(const RecordHeader& record, const AddressVisit& visit) {
  const auto& copy = record_cast<CopyRecord>(record);
  const auto direction = static_cast<CopyDirection>(record.flags);
  if (direction != CopyDirection::kDeviceToHost)
    visit({offsetof(CopyRecord, to), copy.to, copy.bytes, 1, -1, "the destination of a copy"});
  if (direction != CopyDirection::kHostToDevice)
    visit({offsetof(CopyRecord, from), copy.from, copy.bytes, 1, -1, "the source of a copy"});
}

void visit_fill(const RecordHeader& record, const AddressVisit& visit) {
  const auto& fill = record_cast<FillRecord>(record);
  visit({offsetof(FillRecord, to), fill.to, fill.count * record.flags, 1, -1, "the destination of a fill"});
}

void visit_condition(const RecordHeader& record, const AddressVisit& visit) {
  const auto& condition = record_cast<ConditionRecord>(record);
  const std::uint32_t bytes = value_bytes_of(condition);
  visit({offsetof(ConditionRecord, address), condition.address, bytes, bytes, -1, name_of_condition(record.flags)});
}

struct AddressRow {
  RecordKind kind;
  void (*visit)(const RecordHeader& record, const AddressVisit& visit);
};
// Kinds that refer to memory of the device.
constexpr AddressRow kRows[] = {
    {RecordKind::kLaunch, visit_launch},       {RecordKind::kCopy, visit_copy},
    {RecordKind::kCopyInline, visit_copy},     {RecordKind::kFill, visit_fill},
    {RecordKind::kCondition, visit_condition},  // on tapes
};

}  // namespace

void for_each_address(const RecordHeader& record, const AddressVisit& visit) {
  for (const AddressRow& row : kRows) {
    if (row.kind == record.kind) row.visit(record, visit);
  }
}

std::string place_of(const AddressSite& site, const std::string& node) {
  if (site.what) return site.what;
  return "argument " + std::to_string(site.argument) + " of kernel '" + node + "'";
}

}  // namespace slipway::internal
