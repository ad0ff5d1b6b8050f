// What the graph layer knows of each kind of record: one row of a table for each kind that a capture can keep.
#pragma once

#include <cstdint>
#include <string>

#include "record/record.h"

namespace slipway::internal {

// A device address in a record.
struct AddressSite {
  std::uint32_t at;       // from the record's beginning: 8 bytes
  std::uint64_t address;  // that lies there
  std::uint64_t bytes;    // that are read or written from there on; 0: not known
  std::uint32_t alignment;
  std::int32_t argument;  // of a launch; -1: none
  const char* what;       // "the source of a copy"; of launches null
};
// What is called with each of them; refers to it, so that no visit allocates.
class AddressVisit {
 public:
  template <class Visit>
  AddressVisit(const Visit& visit) noexcept  // NOLINT(google-explicit-constructor): stands for the lambda
      : visit_(&visit),
        call_([](const void* to, const AddressSite& site) { (*static_cast<const Visit*>(to))(site); }) {}
  void operator()(const AddressSite& site) const { call_(visit_, site); }

 private:
  const void* visit_;
  void (*call_)(const void*, const AddressSite&);
};

// Visits each device address that the record refers to, null ones too.
void for_each_address(const RecordHeader& record, const AddressVisit& visit);
// "argument 2 of kernel 'add'", "the source of a copy".
std::string place_of(const AddressSite& site, const std::string& node);

}  // namespace slipway::internal
