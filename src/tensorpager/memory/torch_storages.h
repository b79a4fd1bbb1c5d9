// Updates torch's storages when their blocks move (the rebinding binding). A storage that has claimed its block has the
// block itself as its context, which stays the same wherever the bytes are; one whose bytes are paged out has a null
// data pointer and is marked, so that access from outside ops raises a clear error.
#pragma once

#include <c10/core/StorageImpl.h>

#include "tensorpager/pager/holders.h"

namespace tensorpager::memory {

class TorchStorages final : public pager::Holders {
 public:
  /// `holder` is a c10::StorageImpl. It is claimed if our allocator's own DataPtr is in it: an alias of our memory
  /// (DLPack, copy-on-write) owns nothing, and such a block stays where it is.
  bool claim(pager::Block& block, void* holder) override;
  bool has(const pager::Block& block) const override;
  void give_up(pager::Block& block) override;
  void set_data(pager::Block& block, std::byte* data) override;
  void stop_raising(std::span<pager::Block* const> absent) override;
  void forget(pager::Block& block) noexcept override;

  /// The deleter by which a storage is known to have claimed its block, which is then its context.
  static void free_claimed(void* block);

 private:
  bool raises_ = true;
};

}  // namespace tensorpager::memory
