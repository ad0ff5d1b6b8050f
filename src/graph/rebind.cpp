// Rebinding: an executable's work refers to memory elsewhere from its next step on.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/hex.h"
#include "graph/executable.h"
#include "graph/record_forms.h"

namespace slipway::internal {
namespace {

// visit(entry, its node, site): the address places of all records, in the order of the capture.
template <class Visit>
void for_each_place(const DefinitionImpl& definition, const std::byte* records, Visit&& visit) {
  for (const TapeEntry& entry : definition.entries) {
    const NodeDefinition& node = definition.nodes[entry.node];
    const auto visit_site = [&](const AddressSite& site) { visit(entry, node, site); };
    if (entry.what == TapeEntry::What::kRecord) {
      for_each_address(*reinterpret_cast<const RecordHeader*>(records + entry.at), visit_site);
    } else if (entry.what == TapeEntry::What::kCondition) {
      const ConditionRecord condition = definition.conditionals[entry.conditional].record();
      for_each_address(condition.header, visit_site);
    }
  }
}

}  // namespace

void ExecutableCore::wait_until_idle(std::unique_lock<BiasedMutex>& lock, std::int64_t deadline_ns) {
  DeviceImpl& device = *definition_->device;
  for (;;) {
    const std::uint64_t begun = program_->begun();
    if (program_->done().completed() < begun) {
      // Not under the lock, as who publishes the steps may want to launch others first.
      device.owed().check_step(this, begun, "rebinding a graph").throw_if_error();
      const BlockingScope scope(device.rules());
      if (!program_->done().wait(begun, device.rules().spin_ns, deadline_ns)) {
        throw Error(ErrorCode::kTimeout, "graph '" + definition_->name + "' was to be rebound, and step " +
                                             std::to_string(begun) +
                                             " had not passed within the wait limit; nothing was changed, look for "
                                             "values that nobody publishes");
      }
    }
    lock = lock_launches();
    if (program_->done().completed() >= program_->begun()) return;
    lock.unlock();
  }
}

void ExecutableCore::check_site(const AddressSite& site, const NodeDefinition& node, std::size_t index,
                                std::uint64_t old_address, std::uint64_t new_address) const {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    throw Error(code, place_of(site, node.name) + " (node " + std::to_string(index) + " of graph '" +
                          definition_->name + "') was to move from " + hex(old_address) + " to " + hex(new_address) +
                          ", " + why);
  };
  const std::uint32_t tensors = definition_->device->info().tensor_alignment;
  for (const std::uint32_t alignment : {site.alignment, site.argument >= 0 ? tensors : 1}) {
    if (new_address % alignment == 0 || old_address % alignment != 0) continue;
    refuse(ErrorCode::kInvalidArgument, "which is not aligned to the " + std::to_string(alignment) +
                                            " bytes that it needs; move the memory to an address that is");
  }
  const Status range = definition_->device->addresses().check_range("the new place", new_address, site.bytes, true);
  if (!range.ok()) refuse(range.code(), "and " + range.details().sentence);
}

void ExecutableCore::rebind(const AddressMove& move, std::int64_t deadline_ns) {
  DeviceImpl& device = *definition_->device;
  device.check_usable("rebinding a graph", definition_->generation);
  device.captures().check_wait("rebinding a graph").throw_if_error();
  if (move.from == 0 || move.bytes == 0 || move.from + move.bytes < move.from) {
    throw Error(ErrorCode::kInvalidArgument, "graph '" + definition_->name + "' was to be rebound from " +
                                                 std::to_string(move.bytes) + " bytes at " + hex(move.from) +
                                                 "; say where the memory lay, and how much");
  }
  const std::string name = "the memory that graph '" + definition_->name + "' was to be rebound to";
  device.addresses().check_range(name.c_str(), move.to, move.bytes, true).throw_if_error();

  std::unique_lock<BiasedMutex> lock(launch_mutex_, std::defer_lock);
  wait_until_idle(lock, deadline_ns);
  if (places_.empty()) find_places();
  // Where memory was freed, that is what is meant, and not what lies in its place by now, which may be the graph's too.
  const auto freed = [&](const AddressPlace& p) { return p.block.id != 0 && !device.addresses().lives(p.block); };
  const bool any_freed = std::any_of(places_.begin(), places_.end(),
                                     [&](const AddressPlace& p) { return move.holds(p.address) && freed(p); });
  // Everything is checked before anything is changed.
  auto watched = std::make_unique<WatchedAddresses>(definition_->device);
  std::vector<bool> chosen;
  for_each_place(*definition_, records_.data(), [&](const TapeEntry& entry, const auto& node, const AddressSite& site) {
    const AddressPlace& place = places_[chosen.size()];
    const std::string where = place_of(site, node.name);
    chosen.push_back(move.holds(place.address) && (!any_freed || freed(place)));
    if (!chosen.back()) return watched->inherit(place.address, place.block, where);
    check_site(site, node, entry.node, place.address, move(place.address));
    watched->add(move(place.address), where);
  });
  if (std::find(chosen.begin(), chosen.end(), true) == chosen.end()) {
    throw Error(ErrorCode::kInvalidArgument, "graph '" + definition_->name + "' was to be rebound from " +
                                                 std::to_string(move.bytes) + " bytes at " + hex(move.from) + " to " +
                                                 hex(move.to) +
                                                 ", and nothing in it refers to them; give the old address first");
  }
  move_places(chosen, move);
  own_watched_ = std::move(watched);
  watched_ = own_watched_.get();
  freed_seen_ = ~std::uint64_t{0};  // the next launch looks at the new list
  last_block_.clear();              // places that take values hold the new address
  count(counts_.rebinds);
}

void ExecutableCore::find_places() {
  const Tape& captured = definition_->records;
  std::vector<std::byte> records(captured.data(), captured.data() + captured.size_bytes());
  std::vector<AddressPlace> places;
  for_each_place(*definition_, records.data(), [&](const TapeEntry& entry, const auto&, const AddressSite& site) {
    const WatchedAddresses::Block* const holder = definition_->addresses->holder_of(site.address);
    const bool is_condition = entry.what == TapeEntry::What::kCondition;
    places.push_back({entry.branch, is_condition ? entry.conditional : AddressPlace::kNoConditional, site.address,
                      holder ? holder->block : AddressMap::Block{}});
  });
  records_.swap(records);
  places_.swap(places);
}

void ExecutableCore::move_places(const std::vector<bool>& chosen, const AddressMove& move) {
  // A tape is laid out as its definition's, byte for byte, and says less of what lies where: its calls name no kernel.
  const auto rewrite = [&](const std::byte* form, std::uint64_t bytes, std::byte* records, auto&& is_here) {
    std::size_t index = 0;
    for (std::uint64_t at = 0; at < bytes;) {
      const auto& record = *reinterpret_cast<const RecordHeader*>(form + at);
      for_each_address(record, [&](const AddressSite& site) {
        while (!is_here(places_[index])) ++index;
        if (chosen[index]) {
          const std::uint64_t address = move(places_[index].address);
          std::memcpy(records + at + site.at, &address, sizeof address);
        }
        ++index;
      });
      at += record.size_bytes;
    }
  };
  const auto any = [](const AddressPlace&) { return true; };
  const bool forked = program_->branch_count() > 1;
  program_->for_each_tape([&](std::uint32_t branch, std::byte* tape, std::uint64_t bytes) {
    if (forked) {
      rewrite(definition_->branches[branch].records.data(), bytes, tape,
              [branch](const AddressPlace& p) { return p.branch == branch; });
    } else {
      rewrite(definition_->serial.records.data(), bytes, tape, any);
    }
  });
  rewrite(definition_->records.data(), records_.size(), records_.data(),
          [](const AddressPlace& p) { return p.conditional == AddressPlace::kNoConditional; });
  AddressMap& map = definition_->device->addresses();
  const std::lock_guard lock(mutex_);
  for (const Variable& v : definition_->variables) {
    if (v.kind != ArgKind::kTensor || v.is_grid || v.gate != 0) continue;
    std::uint64_t address = 0;
    std::memcpy(&address, first_values_.data() + v.offset, sizeof address);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!chosen[i] || places_[i].address != address) continue;
      address = move(address);
      std::memcpy(first_values_.data() + v.offset, &address, sizeof address);
      break;
    }
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!chosen[i]) continue;
    places_[i].address = move(places_[i].address);
    places_[i].block = map.find(places_[i].address).value_or(AddressMap::Block{});
  }
}

std::uint64_t ExecutableCore::condition_address(std::uint32_t conditional) const noexcept {
  const auto at =
      std::find_if(places_.begin(), places_.end(), [&](const AddressPlace& p) { return p.conditional == conditional; });
  return at == places_.end() ? definition_->conditionals[conditional].address : at->address;
}

std::vector<std::byte> ExecutableCore::first_values() {
  const std::lock_guard lock(mutex_);
  return first_values_;
}

}  // namespace slipway::internal
