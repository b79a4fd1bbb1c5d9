// Access to blocks outside of ops: faults, and exports, which keep blocks resident while code outside of torch has
// their addresses.
#pragma once

#include <cstdint>
#include <optional>

#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"

namespace tensorpager::pager {

class OutsideAccess {
 public:
  enum class FaultKind : std::uint8_t { kRead, kWrite, kUnknown };

  /// It must outlive this.
  explicit OutsideAccess(Core& core) : core_(core) {}

  /// The block that contains the address; null if none of ours does.
  Block* find_around(const void* address);

  /// Makes the faulting address accessible. Returns false if it is not ours to serve: not a live block, or a fault in
  /// the pager itself.
  bool serve_fault(const void* address, FaultKind kind) noexcept;

  /// Keeps the block at this address resident and writable until `unpin_export`; returns null if the address is none of
  /// ours. Throws OverBudget, IoError.
  Block* pin_export(const void* address) {
    return core_.relief.with([&] { return pin_export_once(address); });
  }
  void pin_export(Block& block) {
    core_.relief.with([&] { pin_export_once(block); });
  }
  void unpin_export(Block& block) noexcept;

 private:
  Block* pin_export_once(const void* address);
  void pin_export_once(Block& block);
  Block* locate(const void* address) const;
  bool export_locked(Block& block);
  bool serve_fault_once(const void* address, FaultKind kind, std::optional<std::uint64_t>& unsettled) noexcept;
  bool may_be_exposed(Block& block) noexcept;

  Core& core_;
};

}  // namespace tensorpager::pager
