// Access outside ops: faults, and exports, which keep blocks resident while code outside of torch has their addresses.
#include <exception>
#include <optional>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {

Block* Pager::locate(const void* address) const {
  if (!space_.contains(address) || space_.is_slab(address)) return nullptr;
  auto* block = static_cast<Block*>(space_.owner_before(address));
  return block != nullptr && address < block->data + block->charged.count() ? block : nullptr;
}

Block* Pager::find_around(const void* address) {
  const Lock lock(*this);
  return locate(address);
}

bool Pager::serve_fault(const void* address, FaultKind kind) noexcept {
  if (t_state.in_pager || !space_.contains(address))
    return false;  // before the lock: a real fault may come from anywhere
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  std::optional<std::uint64_t> unsettled;
  if (!serve_fault_once(address, kind, unsettled)) return false;
  return !unsettled || rebuilder_.load()->settle_elsewhere(*unsettled);
}

/// If the block must be settled first, only says so.
bool Pager::serve_fault_once(const void* address, FaultKind kind, std::optional<std::uint64_t>& unsettled) noexcept {
  const Lock lock(*this);
  Block* block = locate(address);
  if (block == nullptr) return false;
  if (!may_be_exposed(*block)) {
    ++counts_.faults;
    unsettled = block->number;
    return true;
  }
  try {
    if (block->is_leaving()) {
      ++counts_.faults;
      transfers_.take_back(*block);
    }
    if (block->is_absent()) {
      ++counts_.faults;
      transfers_.with_fresh(
          [&] { room_.bring_in_anyway(*block, kind == FaultKind::kRead ? Access::kRead : Access::kWrite); });
      note_curve();
      return true;
    }
    if (block->is_clean() && kind != FaultKind::kRead) {
      ++counts_.write_faults;
      transfers_.make_writable(*block);
      return true;
    }
  } catch (const std::exception&) {
    return false;  // the bytes cannot be read: the fault goes to the handler that was installed before ours
  }
  // Another thread served it. The same fault over and over is one that paging cannot repair.
  constexpr std::uint32_t kHopeless = 1000;
  const bool is_same = t_state.last_fault == address && t_state.last_mended == block->mended;
  t_state.same_faults = is_same ? t_state.same_faults + 1 : 0;
  t_state.last_fault = address;
  t_state.last_mended = block->mended;
  return t_state.same_faults < kHopeless;
}

Block* Pager::pin_export_once(const void* address) {
  for (;;) {
    std::uint64_t unsettled = 0;
    {
      const Lock lock(*this);
      Block* const block = locate(address);
      if (block == nullptr || export_locked(*block)) return block;
      unsettled = block->number;
    }
    rebuilder_.load()->settle(unsettled);
  }
}

void Pager::pin_export_once(Block& block) {
  for (;;) {
    {
      const Lock lock(*this);
      if (export_locked(block)) return;
    }
    rebuilder_.load()->settle(block.number);
  }
}

/// Returns false if the block, or what is rebuilt from it, must be settled first.
bool Pager::may_be_exposed(Block& block) noexcept {
  Rebuilder* const rebuilder = rebuilder_;
  return rebuilder == nullptr || (rebuilder->expose(block) && !block.is_dropped());
}

/// Returns false if the block must be settled first.
bool Pager::export_locked(Block& block) {
  if (!may_be_exposed(block)) return false;
  if (block.is_leaving()) transfers_.take_back(block);
  if (block.is_absent()) {
    room_.bring_in(block, Access::kWrite);
  } else if (block.is_clean()) {
    transfers_.make_writable(block);
  }
  if (is_on_device()) transfers_.order().use_here(block.use());
  if ((block.word.fetch_add(kExport, std::memory_order_acq_rel) & kExportMask) == 0) {
    export_bytes_ += block.charged.count();
    note_unevictable();
  }
  return true;
}

void Pager::unpin_export(Block& block) noexcept {
  const Lock lock(*this);
  const std::uint64_t word = block.word.fetch_sub(kExport, std::memory_order_acq_rel);
  if ((word & kExportMask) != kExport) return;
  if ((word & kDead) == 0) {
    export_bytes_ -= block.charged.count();
    note_unevictable();
  } else if ((word & kPinMask) == 0) {
    forget(block);
  }
}

}  // namespace tensorpager::pager
