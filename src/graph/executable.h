// An executable graph: launching steps, publishing their values, cancelling them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/handles.h"
#include "engine/engine.h"
#include "graph/definition.h"

namespace slipway::internal {

// What outlives the handle for as long as its helper thread is busy.
//   X1  steps are begun and submitted under launch_mutex_, so that they lie in their streams in order.
//   X2  a step that is open (begun, not published, not cancelled) has an entry in open_. Whoever publishes it sets
//       `busy` first, so that only one does.
class ExecutableCore : public std::enable_shared_from_this<ExecutableCore> {
 public:
  ExecutableCore(std::shared_ptr<const DefinitionImpl> definition, const InstantiateOptions& options, Engine& engine);
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
  bool passed(std::uint64_t step) { return program_->done().completed() >= step; }
  GraphCounters counters() const;
  Status cancelled_error(std::uint64_t step, ErrorCode code, const std::string& why) const;

  // The last handle is gone: open steps are cancelled, the helper thread ends by itself.
  void drop();

 private:
  struct OpenStep {
    std::uint64_t step = 0;
    std::uint32_t gates_open = 0;
    bool busy = false;
    std::uint64_t thread = 0;  // that launched it
    std::int64_t launched_ns = 0;
  };
  struct Counts {
    std::atomic<std::uint64_t> launches{0}, replay_first{0}, update_first{0}, published{0}, operation_calls{0},
        cancelled{0};
  };

  void check_usable(StreamImpl& stream);
  std::uint64_t begin(StreamImpl& stream, bool opens);
  void submit(const std::shared_ptr<StreamImpl>& stream, std::uint64_t step);
  // The calling thread owes the step's values from here on.
  void owe(StreamImpl& stream, std::uint64_t step);
  // A launch whose values were refused: its step waits to be published again or cancelled, watched over.
  void leave_open(StreamImpl& stream, std::uint64_t step);
  void publish_gates(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken);
  Status refused(const OpenStep& open, const std::string& why) const;
  OpenStep take_open(std::uint64_t step);
  void put_back(const OpenStep& open);
  void close_open(std::uint64_t step);
  void wait_for_slot(std::uint64_t step);
  bool parameters_equal(std::uint64_t step, const std::vector<std::byte>& values);
  // For the timeline; `ended_ns` is 0 when the values were refused.
  void log_update(const std::string& name, std::uint64_t step, std::uint32_t gate, std::int64_t started_ns,
                  std::int64_t ended_ns);
  void start_helper();
  void helper_main();
  void cancel_late();

  const std::shared_ptr<const DefinitionImpl> definition_;
  const InstantiateOptions options_;
  Engine& engine_;
  std::shared_ptr<ReplayProgram> program_;
  Counts counts_;

  std::mutex launch_mutex_;
  std::mutex mutex_;  // guards the rest
  std::vector<OpenStep> open_;
  std::vector<std::weak_ptr<StreamImpl>> streams_;
  struct Update {
    std::uint64_t step;
    std::vector<std::byte> values;
  };
  std::deque<Update> updates_;
  std::condition_variable changed_;
  bool helper_started_ = false;
  bool helper_rests_ = false;  // it waits for a first open step, without looking at the time
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
