// Least recently used, exactly, without work on the hit path: a heap by the last use known when a block was last
// checked. A block that was used since is put back by its new time when it comes to the top. If times are equal, as in
// a loop over raw addresses between two ops, the block that became resident first goes first: the other order would
// page out what was just faulted in, over and over.
#pragma once

#include <vector>

#include "tensorpager/pager/eviction_policy.h"

namespace tensorpager::pager {

class LruPolicy final : public EvictionPolicy {
 public:
  void add(Block& block) override;
  void remove(Block& block) noexcept override;
  Block* choose() override;
  Block* at(std::size_t index) override { return heap_[index].block; }
  std::size_t size() const override { return heap_.size(); }

 private:
  struct Entry {
    std::uint64_t last_use;  // when the entry was last checked
    std::uint64_t arrival;   // counts up
    Block* block;

    bool goes_before(const Entry& other) const {
      return last_use != other.last_use ? last_use < other.last_use : arrival < other.arrival;
    }
  };
  void place(std::size_t index, Entry entry);
  void sift_up(std::size_t index);
  void sift_down(std::size_t index);

  Block* oldest_unpinned() const;

  std::vector<Entry> heap_;
  std::uint64_t latest_ = 0;  // the largest last use seen
  std::uint64_t arrivals_ = 0;
};

}  // namespace tensorpager::pager
