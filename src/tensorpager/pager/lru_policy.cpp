#include "tensorpager/pager/lru_policy.h"

#include <algorithm>

#include "tensorpager/base/errors.h"

namespace tensorpager::pager {

void LruPolicy::place(std::size_t index, Entry entry) {
  heap_[index] = entry;
  entry.block->list_index = static_cast<std::uint32_t>(index);
}

void LruPolicy::sift_up(std::size_t index) {
  const Entry entry = heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (!entry.goes_before(heap_[parent])) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, entry);
}

void LruPolicy::sift_down(std::size_t index) {
  const Entry entry = heap_[index];
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].goes_before(heap_[child])) ++child;
    if (!heap_[child].goes_before(entry)) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, entry);
}

void LruPolicy::add(Block& block) {
  const std::uint64_t last_use = block.last_use.load(std::memory_order_relaxed);
  latest_ = std::max(latest_, last_use);
  heap_.push_back({last_use, arrivals_++, &block});
  sift_up(heap_.size() - 1);
}

void LruPolicy::remove(Block& block) noexcept {
  const std::size_t index = block.list_index;
  TENSORPAGER_CHECK(index < heap_.size() && heap_[index].block == &block);
  const Entry last = heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  place(index, last);
  sift_up(index);
  sift_down(last.block->list_index);
}

Block* LruPolicy::choose() {
  while (!heap_.empty()) {
    Entry& top = heap_.front();
    const std::uint64_t now = top.block->last_use.load(std::memory_order_relaxed);
    latest_ = std::max(latest_, now);
    if (top.block->is_pinned()) {
      // In use now: as recent as any. If even such blocks are at the top, the order of the rest hardly matters.
      if (top.last_use >= latest_) return oldest_unpinned();
      top.last_use = latest_;
    } else if (top.last_use == now) {
      return top.block;
    } else {
      top.last_use = now;
    }
    sift_down(0);
  }
  return nullptr;
}

Block* LruPolicy::oldest_unpinned() const {
  Entry oldest{0, 0, nullptr};
  for (const Entry& entry : heap_) {
    if (entry.block->is_pinned()) continue;
    const Entry now{entry.block->last_use.load(std::memory_order_relaxed), entry.arrival, entry.block};
    if (oldest.block == nullptr || now.goes_before(oldest)) oldest = now;
  }
  return oldest.block;
}

}  // namespace tensorpager::pager
