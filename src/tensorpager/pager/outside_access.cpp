#include "tensorpager/pager/outside_access.h"

#include <exception>

namespace tensorpager::pager {

Block* OutsideAccess::locate(const void* address) const {
  if (!core_.space.contains(address) || core_.space.is_slab(address)) return nullptr;
  auto* block = static_cast<Block*>(core_.space.owner_before(address));
  return block != nullptr && address < block->data + block->charged.count() ? block : nullptr;
}

Block* OutsideAccess::find_around(const void* address) {
  const Lock lock(core_.mutex);
  return locate(address);
}

bool OutsideAccess::serve_fault(const void* address, FaultKind kind) noexcept {
  if (t_state.in_pager || !core_.space.contains(address))
    return false;  // before the lock: a real fault may come from anywhere
  const PagingTime paging = core_.time_paging();
  std::optional<std::uint64_t> unsettled;
  if (!serve_fault_once(address, kind, unsettled)) return false;
  return !unsettled || core_.rebuilder.load()->settle_elsewhere(*unsettled);
}

/// If the block must be settled first, only says so.
bool OutsideAccess::serve_fault_once(const void* address, FaultKind kind,
                                     std::optional<std::uint64_t>& unsettled) noexcept {
  const Lock lock(core_.mutex);
  Block* block = locate(address);
  if (block == nullptr) return false;
  if (!may_be_exposed(*block)) {
    ++core_.counts.faults;
    unsettled = block->number;
    return true;
  }
  try {
    if (block->is_leaving()) {
      ++core_.counts.faults;
      core_.transfers.take_back(*block);
    }
    if (block->is_absent()) {
      ++core_.counts.faults;
      core_.transfers.with_fresh(
          [&] { core_.room.bring_in_anyway(*block, kind == FaultKind::kRead ? Access::kRead : Access::kWrite); });
      core_.note_curve();
      return true;
    }
    if (block->is_clean() && kind != FaultKind::kRead) {
      ++core_.counts.write_faults;
      core_.transfers.make_writable(*block);
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

Block* OutsideAccess::pin_export_once(const void* address) {
  for (;;) {
    std::uint64_t unsettled = 0;
    {
      const Lock lock(core_.mutex);
      Block* const block = locate(address);
      if (block == nullptr || export_locked(*block)) return block;
      unsettled = block->number;
    }
    core_.rebuilder.load()->settle(unsettled);
  }
}

void OutsideAccess::pin_export_once(Block& block) {
  for (;;) {
    {
      const Lock lock(core_.mutex);
      if (export_locked(block)) return;
    }
    core_.rebuilder.load()->settle(block.number);
  }
}

/// Returns false if the block, or what is rebuilt from it, must be settled first.
bool OutsideAccess::may_be_exposed(Block& block) noexcept {
  Rebuilder* const rebuilder = core_.rebuilder;
  return rebuilder == nullptr || (rebuilder->expose(block) && !block.is_dropped());
}

/// Returns false if the block must be settled first.
bool OutsideAccess::export_locked(Block& block) {
  if (!may_be_exposed(block)) return false;
  if (block.is_leaving()) core_.transfers.take_back(block);
  if (block.is_absent()) {
    core_.room.bring_in(block, Access::kWrite);
  } else if (block.is_clean()) {
    core_.transfers.make_writable(block);
  }
  if (core_.is_on_device()) core_.places.device().use_here(block.use());
  if ((block.word.fetch_add(kExport, std::memory_order_acq_rel) & kExportMask) == 0)
    core_.floor.add_export(block.charged);
  return true;
}

void OutsideAccess::unpin_export(Block& block) noexcept {
  const Lock lock(core_.mutex);
  const std::uint64_t word = block.word.fetch_sub(kExport, std::memory_order_acq_rel);
  if ((word & kExportMask) != kExport) return;
  if ((word & kDead) == 0) {
    core_.floor.remove_export(block.charged);
  } else if ((word & kPinMask) == 0) {
    core_.pins.forget(block);
  }
}

}  // namespace tensorpager::pager
