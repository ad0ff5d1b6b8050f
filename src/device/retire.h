// Where things wait to be destroyed until all work submitted before has passed: so that dropping a handle
// never waits, and a launch holds no reference count.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "device/driver.h"

namespace slipway::internal {

// In the child of a fork, what is given to a list of its parent's is left behind: neither the lock nor the object may
// be touched there.
class RetireList {
 public:
  void add_stream(std::shared_ptr<DriverStream> stream);
  // The stream goes when its own work has passed.
  void retire_stream(const std::shared_ptr<DriverStream>& stream);
  // Runs `destroy` once everything submitted so far to any stream has passed; at once when it has.
  void retire(std::function<void()> destroy);
  // Destroys what may go by now.
  void collect();
  // Destroys everything: nothing runs any more.
  void clear();
  // Forgets everything without destroying it: something still runs and will not stop.
  void leak();

  // Streams that were not dropped, or still have work.
  std::vector<std::shared_ptr<DriverStream>> streams() const;

 private:
  bool forked() const noexcept { return forks_ != fork_count(); }

  struct Passing {
    std::shared_ptr<DriverStream> stream;
    std::uint64_t sequence;
  };
  struct Entry {
    std::vector<Passing> waits_for;
    std::function<void()> destroy;
  };
  std::vector<Passing> pending_now() const;
  void collect_locked(std::vector<std::function<void()>>& ready, std::vector<std::shared_ptr<DriverStream>>& gone);

  const std::uint32_t forks_ = fork_count();
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DriverStream>> streams_;
  std::vector<std::shared_ptr<DriverStream>> dropped_;
  std::vector<Entry> entries_;
};

}  // namespace slipway::internal
