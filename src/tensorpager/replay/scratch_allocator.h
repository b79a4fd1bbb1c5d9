// Memory for replays that are compared: outside the budget, never paged, and filled with a byte. It stands before the
// allocator of the session, and is used by a thread only while a ScratchScope of that thread lives.
#pragma once

#include <c10/core/Allocator.h>

#include "tensorpager/arena/address_space.h"

namespace tensorpager::replay {

/// While it lives, what this thread allocates is scratch memory filled with `fill`.
class ScratchScope {
 public:
  explicit ScratchScope(std::byte fill);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  const int before_;
};

class ScratchAllocator final : public c10::Allocator {
 public:
  /// `space`: where the memory of the session's allocator lies.
  explicit ScratchAllocator(const arena::AddressSpace& space);

  /// Puts this before torch's CPU allocator, and takes it away. Must live for ever, as storages keep their allocator.
  void install();
  void uninstall();

  c10::DataPtr allocate(std::size_t size) override;
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t size) const override;

 private:
  c10::Allocator* next_ = nullptr;
};

}  // namespace tensorpager::replay
