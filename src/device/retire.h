// Where things wait to be destroyed until all work submitted before has passed: so that dropping a handle
// never waits, and a launch holds no reference count.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/wait.h"
#include "device/driver.h"

namespace slipway::internal {

// In the child of a fork, what is given to a list of its parent's is left behind: neither the lock nor the object may
// be touched there.
class RetireList {
 public:
  void add_stream(std::shared_ptr<DriverStream> stream);
  // The stream goes when its own work has passed.
  void retire_stream(const std::shared_ptr<DriverStream>& stream) noexcept;
  // Runs `destroy` once everything submitted so far to any stream has passed; at once when it has. Destructors call it:
  // where there is no memory to keep it, what it would destroy is better lost than destroyed too early.
  template <class Destroy>
  void retire(Destroy destroy) noexcept {
    retire_as(Runs::kAnything, std::move(destroy));
  }
  // Likewise, for what only calls the driver: settle() waits for it.
  template <class Free>
  void retire_memory(Free free) noexcept {
    retire_as(Runs::kDriver, std::move(free));
  }
  // Destroys what may go by now.
  void collect();
  // Likewise, and waits for memory that another thread is giving back at the moment, so that a caller who synchronised
  // finds it free. It does not wait for other destructors: they run user code, which may need what the caller holds.
  Status settle(const WaitRules& rules, std::int64_t deadline_ns);
  // Destroys everything: nothing runs any more.
  void clear();
  // Forgets everything without destroying it: something still runs and will not stop.
  void leak();

  // Streams that were not dropped, or still have work.
  std::vector<std::shared_ptr<DriverStream>> streams() const;

 private:
  // Is not destroyed with its scope.
  template <class T>
  union Lost {
    template <class From>
    Lost(std::in_place_t, From&& from) : value(std::forward<From>(from)) {}
    ~Lost() {}  // NOLINT(modernize-use-equals-default): of a union it would be deleted
    T value;
  };
  enum class Runs : std::uint8_t { kAnything, kDriver };
  template <class Destroy>
  void retire_as(Runs runs, Destroy destroy) noexcept {
    Lost<Destroy> kept(std::in_place, std::move(destroy));
    if (forked()) return;
    try {
      Lost<std::function<void()>> function(std::in_place, std::move(kept.value));  // moves it once it has memory
      add(runs, function.value);
      std::destroy_at(&function.value);
      std::destroy_at(&kept.value);
    } catch (const std::bad_alloc&) {
      return;
    }
    collect();
  }
  // Takes it, or throws bad_alloc and does not.
  void add(Runs runs, std::function<void()>& destroy);
  bool forked() const noexcept { return forks_ != fork_count(); }

  struct Passing {
    std::shared_ptr<DriverStream> stream;
    std::uint64_t sequence;
  };
  struct Entry {
    std::vector<Passing> waits_for;
    std::function<void()> destroy;
    Runs runs = Runs::kAnything;
  };
  struct Ready {
    std::vector<std::function<void()>> memory, others;
    std::vector<std::shared_ptr<DriverStream>> gone;
    std::uint64_t batch = 0;  // of the memory, when there is any
  };
  std::vector<Passing> pending_now() const;
  void collect_locked(Ready& ready);

  const std::uint32_t forks_ = fork_count();
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DriverStream>> streams_;
  std::vector<std::shared_ptr<DriverStream>> dropped_;
  std::vector<Entry> entries_;
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t> freeing_;  // batches of memory that some thread has taken and not yet given back
  std::condition_variable freed_;
};

}  // namespace slipway::internal
