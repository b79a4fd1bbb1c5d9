// The memory that a session pages, a host's or a device's, with all that is made for it once in a process: allocator,
// binding and pager. None of it is ever freed, because storages, threads and exit handlers may outlive everything that
// could free it.
#pragma once

#include <memory>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/config.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::memory {

class PagedMemory {
 public:
  virtual ~PagedMemory() = default;

  virtual pager::Pager& pager() = 0;
  virtual arena::AddressSpace& space() = 0;
  /// Whether blocks may change their address.
  virtual bool rebinds() const = 0;

  /// The way of paged-out bytes for one session. Throws IoError if they cannot be kept where the settings want them.
  virtual std::unique_ptr<transfer::Queues> make_queues(const base::Config& config, base::Bytes budget) = 0;
  /// Makes this torch's allocator; `uninstall` brings back the one before. What was given out is still served.
  virtual void install(const base::Config& config) = 0;
  virtual void uninstall() = 0;
  /// To be called before each op that multiplies matrices; null if nobody needs it.
  virtual void (*products_observer())() { return nullptr; }

  /// Held over a fork, after the pager is ready for it.
  virtual void lock_all() = 0;
  virtual void unlock_all() = 0;
  virtual void reset_locks_in_child() = 0;
};

}  // namespace tensorpager::memory
