// Where things wait to be destroyed until all work submitted before has passed: so that dropping a handle
// never waits, and a launch holds no reference count.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "device/driver.h"

namespace slipway::internal {

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

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DriverStream>> streams_;
  std::vector<std::shared_ptr<DriverStream>> dropped_;
  std::vector<Entry> entries_;
};

}  // namespace slipway::internal
