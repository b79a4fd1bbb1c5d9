// How the skipper learns what a kernel allocates inside: whoever knows the storages that are recorded tells the
// observer of the calling thread of each, with the bytes that it is charged. No more than a test of one pointer where
// none is set.
#pragma once

#include <cstddef>

namespace tensorpager::dry {

class AllocationObserver {
 public:
  /// `name` differs from those of all other storages that are alive; it need not be an address.
  virtual void allocated(const void* name, std::size_t charged) noexcept = 0;
  virtual void freed(const void* name) noexcept = 0;

 protected:
  ~AllocationObserver() = default;
};

/// This thread's observer; null if there is none.
extern thread_local AllocationObserver* t_observer;

}  // namespace tensorpager::dry
