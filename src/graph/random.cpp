#include "graph/random.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "graph/capture_impl.h"

namespace slipway {

using internal::deref;

Generator::Generator(std::uint64_t seed) : impl_(std::make_shared<internal::GeneratorImpl>(seed)) {}
Generator::State Generator::take(std::uint64_t count) const { return impl_->take(count); }
Generator::State Generator::state() const { return impl_->state(); }
void Generator::seed(std::uint64_t seed) const { impl_->set_state({seed, 0}); }
void Generator::set_state(const State& state) const { impl_->set_state(state); }

RandomDraw Generator::take(const Stream& stream, std::uint64_t count) const {
  internal::StreamImpl& s = deref(stream, "the stream");
  s.check_open();  // what could not be launched is not taken
  if (const auto capture = std::dynamic_pointer_cast<internal::CaptureImpl>(s.capture())) {
    return capture->take_random(impl_, count);
  }
  const State from = impl_->take(count);
  return {from.seed, from.offset};
}

namespace internal {

RandomDraw CaptureImpl::take_random(const std::shared_ptr<GeneratorImpl>& generator, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  require_valid();
  check_draws("took random numbers");
  const IncompleteGuard guard(*this);
  const std::string name = "random " + std::to_string(definition_->variables.size());
  Variable variable;
  variable.kind = ArgKind::kU64;
  variable.size = sizeof(std::uint64_t);
  variable.is_random = true;
  variable.name = name + " seed";
  const std::uint32_t seed = add_variable(variable);
  variable.name = name + " offset";
  const std::uint32_t offset = add_variable(variable);
  RandomSource& source = source_of(generator);
  source.draws.push_back({definition_->variables[seed].offset, definition_->variables[offset].offset, source.count});
  source.count += count;
  const std::uint32_t id = definition_->capture_id;
  return {Argument::parameter(seed, id, ArgKind::kU64), Argument::parameter(offset, id, ArgKind::kU64)};
}

void CaptureImpl::check_draws(const std::string& what) {
  if (open_.empty()) return;
  invalidate(ErrorCode::kUnsupported, what + " in a body of the conditional node '" +
                                          definition_->nodes[open_.back().node].name +
                                          "', which may run any number of times, while a step takes the same positions "
                                          "always: it would not draw what eager calls do. Take them in front of the "
                                          "node, and add the turn to the position in the kernel");
}

RandomSource& CaptureImpl::source_of(const std::shared_ptr<GeneratorImpl>& generator) {
  for (RandomSource& source : definition_->random) {
    if (source.generator == generator) return source;
  }
  return definition_->random.emplace_back(RandomSource{generator});
}

void CaptureImpl::embed_random(const DefinitionImpl& child, std::uint32_t block_base) {
  if (!child.random.empty()) check_draws("was given the graph '" + child.name + "', which takes random numbers,");
  for (const RandomSource& from : child.random) {
    RandomSource& source = source_of(from.generator);
    for (RandomSource::Draw draw : from.draws) {
      draw.seed_at += block_base;
      draw.offset_at += block_base;
      draw.first += source.count;
      source.draws.push_back(draw);
    }
    source.count += from.count;
  }
}

bool uses_only_random(const DefinitionImpl& d) {
  return std::all_of(d.uses.begin(), d.uses.end(), [&](const ValueUse& use) {
    if (use.gate != 0 || use.bytes == 0) return false;  // of an operation, or read by a function of the program's
    return std::any_of(d.variables.begin(), d.variables.end(),
                       [&](const Variable& v) { return v.is_random && v.offset == use.from; });
  });
}

void RandomSource::write(const Generator::State& from, std::byte* block) const noexcept {
  for (const Draw& draw : draws) {
    const std::uint64_t offset = from.offset + draw.first;
    std::memcpy(block + draw.seed_at, &from.seed, sizeof from.seed);
    std::memcpy(block + draw.offset_at, &offset, sizeof offset);
  }
}

StepDraws::StepDraws(const std::vector<RandomSource>& sources) : sources_(sources) {
  taken_.reserve(64 * sources_.size());
}

void StepDraws::take(std::uint64_t step, std::uint64_t passed) {
  const std::lock_guard lock(mutex_);
  std::erase_if(taken_, [&](const Taken& taken) { return taken.step <= passed; });
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    taken_.push_back({step, i, sources_[i].generator->take(sources_[i].count)});
  }
}

void StepDraws::write(std::uint64_t step, std::byte* block) const {
  const std::lock_guard lock(mutex_);
  for (const Taken& taken : taken_) {
    if (taken.step == step) sources_[taken.source].write(taken.from, block);
  }
}

}  // namespace internal
}  // namespace slipway
