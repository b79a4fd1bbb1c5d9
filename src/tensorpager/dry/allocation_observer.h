// How the skipper learns what a kernel allocates inside: the recording of storages reports each birth and death to the
// observer of the thread. It costs a test of one pointer if there is none.
#pragma once

#include <cstddef>

namespace tensorpager::dry {

class AllocationObserver {
 public:
  /// `name` differs from those of all other storages that are alive; it need not be an address.
  /// `size`: bytes as asked for; `charged`: rounded up to the granule.
  virtual void allocated(const void* name, std::size_t size, std::size_t charged) noexcept = 0;
  virtual void freed(const void* name) noexcept = 0;

 protected:
  ~AllocationObserver() = default;
};

/// This thread's observer; null if there is none.
extern thread_local AllocationObserver* t_observer;

}  // namespace tensorpager::dry
