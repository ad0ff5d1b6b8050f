// Events and holds. A mark is a record in its stream, so an event is a stream and a number in it; only events with
// timing keep the command itself.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "device/driver.h"
#include "drivers/opencl/opencl_stream.h"

namespace slipway::internal {

// Wait records name the stream of the mark by its number, since the stream may be gone by the time they are executed;
// null: the record's event is a hold.
inline void* mark_source_of(std::uint64_t stream_id) noexcept { return reinterpret_cast<void*>(stream_id); }
inline std::uint64_t mark_source_id(const void* source) noexcept { return reinterpret_cast<std::uint64_t>(source); }

class OpenClEvent final : public DriverEvent {
 public:
  OpenClEvent(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context, bool timing) noexcept
      : shared_(std::move(shared)), context_(std::move(context)), timing_(timing) {}

  void marked(DriverStream& stream, std::uint64_t sequence) override;
  bool prepare_wait(EventRecord& record) override;
  EventState state(Status& cause) override;
  Status wait(std::int64_t deadline_ns) override;
  Result<std::int64_t> time_ns() override;

  // By a stream, which holds its pump mutex: a mark of this event was enqueued as this command. May come before or
  // long after its marked().
  void executed(std::uint64_t stream_id, std::uint64_t sequence, const ClEvent& command);

 private:
  struct Mark {
    std::shared_ptr<OpenClStream> stream;  // null: never marked
    std::uint64_t sequence = 0;
  };
  Mark last() const;

  struct Executed {
    std::uint64_t stream_id;
    std::uint64_t sequence;
    ClEvent command;
  };

  const std::shared_ptr<OpenClShared> shared_;
  const std::shared_ptr<ClContext> context_;
  const bool timing_;
  mutable std::mutex mutex_;  // guards the rest; nothing is locked or waited for inside
  Mark mark_;
  std::vector<Executed> executed_;  // timing only: the last mark, and marks that marked() did not sort out yet
};

// A stream that comes to a hold is cut there, so releasing is going on with the streams that were.
class OpenClHold final : public DriverHold {
 public:
  explicit OpenClHold(std::shared_ptr<OpenClShared> shared) noexcept : shared_(std::move(shared)) {}
  ~OpenClHold() override { release(); }

  void marked(DriverStream&, std::uint64_t) override {}
  bool prepare_wait(EventRecord& record) override;
  EventState state(Status& cause) override;
  Status wait(std::int64_t deadline_ns) override;
  Result<std::int64_t> time_ns() override;
  void release() override;

  // By a stream, which holds its pump mutex. False: remembered, release() will go on with it.
  bool released_or_remember(const std::weak_ptr<OpenClStream>& stream);

 private:
  const std::shared_ptr<OpenClShared> shared_;
  mutable std::mutex mutex_;  // guards the rest; nothing is locked or waited for inside
  bool released_ = false;
  std::vector<std::weak_ptr<OpenClStream>> held_;
  std::vector<std::shared_ptr<Parker>> wakers_;
};

}  // namespace slipway::internal
