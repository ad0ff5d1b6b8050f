// An executable graph: launching steps, publishing their values, cancelling them.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/biased_mutex.h"
#include "base/simulated.h"
#include "device/handles.h"
#include "engine/replay_program.h"
#include "graph/definition.h"

namespace slipway::internal {

struct AddressSite;

// Memory that lay in [from, from + bytes) lies at `to`.
struct AddressMove {
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::uint64_t to = 0;

  bool holds(std::uint64_t address) const noexcept { return address - from < bytes; }
  std::uint64_t operator()(std::uint64_t address) const noexcept { return to + (address - from); }
};

// One place of an executable's work that refers to memory, and the block that is meant: another may lie there later.
struct AddressPlace {
  static constexpr std::uint32_t kNoConditional = ~std::uint32_t{0};
  std::uint32_t branch = 0;
  std::uint32_t conditional = kNoConditional;  // whose condition lies there, which has no record in the definition
  std::uint64_t address = 0;
  AddressMap::Block block{};  // id 0: in no memory that Slipway knows
};

// What outlives the handle for as long as its helper thread is busy.
//   X1  steps are begun and submitted under launch_mutex_, so that they lie in their streams in order.
//   X2  a step that somebody has yet to publish (begun, not published, not over) has an entry in open_. Whoever
//   publishes
//       it sets `busy` first, so that only one does. A step that its own launch publishes gets its entry only when that
//       is refused. Where a walker cancels steps, their entries stay until somebody comes by: who publishes, or
//       recover().
//   X3  recover() first has every step pass, then looks for entries that are `busy` and at publishing_, and refuses
//       where there are any: the publisher of a cancelled step may still write its slot. One that begins later finds
//       that its step has passed. Who publishes before submitting is neither: its step passes only when it is submitted
//       or abandoned.
//   X4  rebind() changes tapes under launch_mutex_ when all steps that were begun have passed, so that none is walked.
class ExecutableCore : public std::enable_shared_from_this<ExecutableCore> {
 public:
  ExecutableCore(std::shared_ptr<const DefinitionImpl> definition, const InstantiateOptions& options);
  ~ExecutableCore();

  const DefinitionImpl& definition() const noexcept { return *definition_; }
  const std::shared_ptr<const DefinitionImpl>& shared_definition() const noexcept { return definition_; }

  Step launch(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values);
  Step launch_open(const std::shared_ptr<StreamImpl>& stream, Publisher publisher);
  Step launch_plain(const std::shared_ptr<StreamImpl>& stream);
  void publish(std::uint64_t step, const std::vector<std::byte>& values);
  void cancel(std::uint64_t step, Status cause);
  void recover();
  void wait(std::uint64_t step, std::int64_t deadline_ns);
  void rebind(const AddressMove& move, std::int64_t deadline_ns);
  std::vector<std::byte> first_values();
  const std::vector<std::uint64_t>& scratch() const noexcept { return scratch_; }
  const InstantiateOptions& options() const noexcept { return options_; }
  // Where a condition lies, and the captured records, with addresses as they are now. While nobody rebinds.
  std::uint64_t condition_address(std::uint32_t conditional) const noexcept;
  const std::byte* records() const noexcept { return records_.empty() ? definition_->records.data() : records_.data(); }
  Tier tier() const noexcept { return options_.tier; }
  unsigned depth() const noexcept { return options_.depth; }
  ReplayProgram& program() noexcept { return *program_; }  // for tests
  bool passed(std::uint64_t step) const { return program_->done().completed() >= step; }
  GraphCounters counters() const;
  Status cancelled_error(std::uint64_t step, ErrorCode code, const std::string& why) const;

  // The last handle is gone: open steps are cancelled, the helper thread ends by itself.
  void drop();

 private:
  struct OpenStep {
    std::uint64_t step = 0;
    std::uint32_t gates_open = 0;
    bool busy = false;
    bool submitted = true;     // false: its values come first
    std::uint64_t thread = 0;  // that launched it
  };
  // Counts that only the holder of one mutex raises: launch_mutex_, and for `published_open` mutex_.
  static void count(std::atomic<std::uint64_t>& c) noexcept {
    c.store(c.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  struct Counts {
    std::atomic<std::uint64_t> launches{0}, replay_first{0}, update_first{0}, operation_calls{0}, cancelled{0},
        unchanged{0}, rebinds{0};
    // Steps whose values were published: before they were submitted, behind that by their launch, by publish().
    std::atomic<std::uint64_t> published_first{0}, published_behind{0}, published_open{0};
  };

  void check_usable(StreamImpl& stream) {
    if (&stream.device() != definition_->device.get()) [[unlikely]]
      check_same_device(*definition_->device, stream.device(), "the stream");
    definition_->device->check_usable("launching a graph", definition_->generation);
    stream.check_open();
  }
  // On a captured stream: becomes a part of that graph.
  bool embedded(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values);
  void check_values(const std::vector<std::byte>& values) const {
    if (!definition_->specialised.empty()) check_specialised(*definition_, 0, values.data());
  }
  bool blocking() const noexcept { return definition_->device->environment().blocking; }
  // `has_values`: they come with the launch, which in blocking mode waits for the step.
  std::uint64_t begin(const std::shared_ptr<StreamImpl>& stream, bool has_values);
  void remember(const std::shared_ptr<StreamImpl>& stream);
  [[noreturn]] void refuse_step(const Status& cause) const;
  [[noreturn]] void refuse_open() const;
  void draw(std::uint64_t step);  // its random numbers
  // Of a step that has not passed, for a sentence: the gate that it waits for, or what to look for.
  std::string what_holds(std::uint64_t step);
  // Takes launch_mutex_. Whoever has it may stand in a full ring until work runs that needs a lock of this caller's.
  std::unique_lock<BiasedMutex> lock_launches() {
    std::unique_lock<BiasedMutex> lock(launch_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) [[unlikely]]
      wait_for_launches(lock);
    return lock;
  }
  void wait_for_launches(std::unique_lock<BiasedMutex>& lock);
  // The same when the next step's slot is free: who has to publish an older step may need the lock before.
  std::unique_lock<BiasedMutex> lock_launches_with_slot();
  // Into its stream, or the step is abandoned. In blocking mode who waits for it does so without launch_mutex_, which
  // the publisher of an older step may need.
  void submit(const std::shared_ptr<StreamImpl>& stream, std::uint64_t step);
  void submit_generally(StreamImpl& stream, const ReplayRecord& record);
  void remember_sequence(std::uint64_t step, std::uint64_t sequence);
  // In blocking mode, of a step that was launched open and is published: waits for it, and tells of its failure.
  void settle_published(std::uint64_t step, bool held_up);
  struct Unsettled {
    std::uint64_t step = 0;
    std::weak_ptr<StreamImpl> stream{};
    std::uint64_t sequence = 0;  // there; 0 while it is being submitted
  };
  Unsettled take_unsettled(std::uint64_t step);  // without a stream: it has none any more
  // In blocking mode waits for a step that was submitted, and tells of its failure, also where another was told first.
  void settle(StreamImpl& stream, std::uint64_t step);
  void submit_side(std::size_t index, std::uint64_t step);
  // What is owed of a step, by that thread. `gate_name` is null in a graph without values, of which nothing is.
  OwedUpdates::Owed owed(StreamImpl& stream, std::uint64_t step, std::uint64_t thread) const;
  // Of a step that has its values while others are open: it may wait for one of them. Abandons it where it fails.
  void stand_behind_owed(StreamImpl& stream, std::uint64_t step);
  // It has to be published within the watchdog's limit, and is taken off by whoever does.
  // `owed_on`: the stream that `thread` must not wait for meanwhile; null where nobody has to know.
  void open(const OpenStep& step, StreamImpl* owed_on, std::uint64_t thread, bool may_have_passed);
  // The same for a step that is not submitted yet; on that stream this thread owes it, unless it is null. Abandons it
  // when that fails.
  void open_begun(std::uint64_t step, StreamImpl* owed_on, std::uint64_t thread);
  // A step that never came into its stream: its number counts as run.
  void abandon(std::uint64_t step);
  void open_gate(const OpenStep& taken, std::uint32_t gate, Freed& freed) {
    if (taken.submitted) program_->open_gate(gate, taken.step, freed);
    else program_->open_gate_unseen(gate, taken.step, freed);
  }
  // Publishes, and throws what the caller is to be told. `taken` says how far it came.
  void publish_taken(OpenStep& taken, const std::vector<std::byte>& values);
  void publish_gates(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken);
  void publish_parameters(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken);
  void publish_operations(std::uint64_t step, OpenStep& taken);
  void check_not_over(const OpenStep& taken) const;
  void check_same_values(std::uint64_t step, const std::vector<std::byte>& values);
  // Throws what is being handled, told with the operation that refused the values and with what becomes of the step.
  // `block`: the step's values.
  [[noreturn]] void throw_told(const OpenStep& open, const std::byte* block) const;
  Status refused(const OpenStep& open, const std::byte* block, const std::string& why,
                 ErrorCode code = ErrorCode::kInvalidArgument) const;
  OpenStep take_open(std::uint64_t step);
  OpenStep take_open_looking(std::uint64_t step);  // where it is not as usual
  void put_back(const OpenStep& open);
  void close_open(std::uint64_t step);
  bool has_slot(std::uint64_t step) const { return step <= options_.depth || passed(step - options_.depth); }
  void wait_for_slot(std::uint64_t step) {
    if (!has_slot(step)) [[unlikely]]
      wait_until_slot_is_free(step);
  }
  void wait_until_slot_is_free(std::uint64_t step);
  // It passes by itself, whatever anybody does.
  bool over(std::uint64_t step) const { return passed(step) || program_->cancelled(step); }
  // Under mutex_; what it freed is resumed, and what was owed removed, by end_cancel(), once that is given up.
  std::uint64_t cancel_locked(std::uint64_t step, Status cause, Freed& freed);
  void end_cancel(std::uint64_t step, std::uint64_t last, Freed& freed);
  // Steps that were cancelled pass by themselves, soon; only then have their streams failed. At most the device's
  // limit.
  void wait_for_cancelled();
  bool parameters_equal(std::uint64_t step, const std::vector<std::byte>& values);
  // For the timeline; `ended_ns` is 0 when the values were refused.
  void log_update(const std::string& name, std::uint64_t step, std::uint32_t gate, std::int64_t started_ns,
                  std::int64_t ended_ns);
  // --- On devices with resettable gates (executable_resettable.cpp) ---
  Step launch_resettable(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values);
  std::uint64_t submit_both(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values);
  DriverStream& update_stream(UpdateStream& updates, StreamImpl& replay);
  std::uint32_t update_bytes() const;
  void evaluate_all(const std::vector<std::byte>& values);
  void submit_update(DriverStream& stream, std::uint64_t step);
  void submit_wait_for(DriverStream& stream, std::uint64_t step);
  std::unique_lock<Mutex> lock_updates();
  void recover_updates();

  // Takes entries off open_, under mutex_.
  template <class Which>
  void erase_open(Which&& which) {
    std::erase_if(open_, which);
    oldest_open_.store(oldest(), std::memory_order_release);
  }
  std::uint64_t oldest() const noexcept {
    std::uint64_t step = 0;
    for (const OpenStep& open : open_) {
      if (step == 0 || open.step < step) step = open.step;
    }
    return step;
  }
  void start_helper();
  void wake_helper();
  void helper_main();
  void cancel_late();
  std::int64_t first_seen(std::uint64_t step, std::int64_t now) const noexcept;
  // Returns with `lock`, on launch_mutex_, held and every step passed.
  void wait_until_idle(std::unique_lock<BiasedMutex>& lock, std::int64_t deadline_ns);
  void find_places();
  void check_site(const AddressSite& site, const NodeDefinition& node, std::size_t index, std::uint64_t old_address,
                  std::uint64_t new_address) const;
  void move_places(const std::vector<bool>& chosen, const AddressMove& move);

  const std::shared_ptr<const DefinitionImpl> definition_;
  const InstantiateOptions options_;
  std::shared_ptr<ReplayProgram> program_;
  std::vector<std::shared_ptr<DriverStream>> sides_;  // of the branches behind the first; under launch_mutex_
  Counts counts_;
  std::unique_ptr<StepDraws> draws_;  // null where the graph takes no random numbers
  std::vector<Memory> scratch_memory_;
  std::vector<std::uint64_t> scratch_;  // by variable

  BiasedMutex launch_mutex_;
  std::weak_ptr<StreamImpl> last_stream_;  // under launch_mutex_: it is in streams_
  std::uint64_t freed_seen_ = 0;           // likewise: of the device's watched blocks
  std::vector<std::byte> records_;         // likewise, and the rest: once it was rebound
  std::vector<AddressPlace> places_;
  std::unique_ptr<WatchedAddresses> own_watched_;   // likewise: once it was rebound
  const WatchedAddresses* watched_;                 // likewise: those, or the definition's
  std::vector<std::byte> next_block_, last_block_;  // likewise: of updates that are work of the device
  std::atomic<int> publishing_{0};                  // of those who publish a step that has no entry in open_
  BiasedMutex mutex_;                               // guards open steps; the helper takes it only when one is late
  std::vector<std::byte> first_values_;             // that values() begins with
  std::vector<OpenStep> open_;
  std::vector<Unsettled> unsettled_;  // in blocking mode, of open steps
  std::vector<std::weak_ptr<StreamImpl>> streams_;
  bool helper_started_ = false;
  // The oldest of open_, 0 where it is empty: what the helper looks at without the mutex. Who opens the first one
  // stores it and then reads helper_rests_, the helper the other way round (base/fence.h; it is the rare side).
  std::atomic<std::uint64_t> oldest_open_{0};
  std::atomic<bool> helper_rests_{false};  // it waits for a first open step, without looking at the time
  const bool asymmetric_ = asymmetric_fences();
  struct Look {
    std::uint64_t begun = 0;
    std::int64_t at_ns = 0;
  };
  // More than there are within the limit; older steps are late by any of them.
  static constexpr std::size_t kMostLooks = 32;
  std::vector<Look> looks_;  // the helper's own: how many steps had begun when it looked, the oldest first
  std::mutex helper_mutex_;  // guards the rest; taken behind mutex_
  struct Update {
    std::uint64_t step;
    std::vector<std::byte> values;
  };
  std::list<Update> updates_;
  std::uint64_t helper_step_ = 0;  // whose values the helper has taken from there and not yet published
  ConditionVariable changed_;
  bool stopping_ = false;
};

class ExecutableImpl {
 public:
  explicit ExecutableImpl(std::shared_ptr<ExecutableCore> shared) : core(std::move(shared)) {}
  ~ExecutableImpl() { core->drop(); }

  StepValues values() const;
  // The values as bytes, after checking that they are this definition's.
  const std::vector<std::byte>& bytes_of(const StepValues& values) const;

  const std::shared_ptr<ExecutableCore> core;
};

}  // namespace slipway::internal
