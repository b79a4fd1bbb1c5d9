#include "tensorpager/plan/eviction.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::plan {
namespace {

using trace::index;
using trace::StorageId;

/// It settles within a few sweeps; where it does not, the last one's decisions hold, and who differs is evicted.
constexpr int kMaxSweeps = 6;

class Sweep {
 public:
  Sweep(const Liveness& liveness, std::uint64_t space, const std::vector<bool>& entry)
      : liveness_(liveness), space_(space), resident_(entry), used_(entry.size()), touched_at_(entry.size(), -1) {
    evictions_.after_use.assign(liveness.all_uses(), kNever);
    evictions_.unused_resident = entry;
    for (std::uint32_t i = 0; i < entry.size(); ++i) {
      if (!entry[i]) continue;
      charged_ += liveness.life(StorageId{i}).bytes;
      queue_.emplace(next_use(StorageId{i}), i);
    }
  }

  void run() {
    for (std::uint32_t op = 0; op < liveness_.ops(); ++op) {
      for (const Touch& touch : liveness_.touches(op)) {
        const std::uint32_t i = index(touch.storage);
        if (!resident_[i]) charged_ += liveness_.life(touch.storage).bytes;
        resident_[i] = true;
        touched_at_[i] = op;
        ++used_[i];
      }
      make_room(op);
      for (const StorageId id : liveness_.deaths(op)) {
        if (resident_[index(id)]) charged_ -= liveness_.life(id).bytes;
        resident_[index(id)] = false;
      }
      for (const Touch& touch : liveness_.touches(op)) {
        if (resident_[index(touch.storage)]) queue_.emplace(next_use(touch.storage), index(touch.storage));
      }
    }
  }

  const std::vector<bool>& resident() const { return resident_; }
  Evictions& evictions() { return evictions_; }

 private:
  std::int64_t next_use(StorageId id) const {
    const auto uses = liveness_.uses(id);
    const Life& life = liveness_.life(id);
    if (uses.empty()) return kNever;
    const bool passed = used_[index(id)] == uses.size();
    if (passed && !life.entry) return kNever;
    const std::uint32_t op = passed ? uses.front().op : uses[used_[index(id)]].op;
    // A gradient that dies early in the window and is born later: its birth is no use of the life before.
    if (life.birth == op) return kNever;
    return op + (passed ? std::int64_t{liveness_.ops()} : 0);
  }

  void make_room(std::uint32_t op) {
    const std::uint64_t temporary = liveness_.temporary(op);
    while (charged_ + temporary > space_) {
      TENSORPAGER_CHECK(!queue_.empty());
      const auto [next, i] = queue_.top();
      queue_.pop();
      const StorageId id{i};
      // An entry of before its last use, or of one that has died. What this op uses is put back after it.
      if (!resident_[i] || touched_at_[i] == op || next != next_use(id)) continue;
      resident_[i] = false;
      charged_ -= liveness_.life(id).bytes;
      const std::size_t uses = liveness_.uses(id).size();
      if (uses == 0) {
        evictions_.unused_resident[i] = false;
      } else if (used_[i] > 0) {
        evictions_.after_use[liveness_.first_use(id) + used_[i] - 1] = op;
      } else {
        // Not used in this window yet, so it goes in the window before, after its last use there.
        evictions_.after_use[liveness_.first_use(id) + uses - 1] = op + std::int64_t{liveness_.ops()};
      }
    }
  }

  const Liveness& liveness_;
  std::uint64_t space_;
  std::vector<bool> resident_;
  std::vector<std::uint32_t> used_;  // uses passed
  std::vector<std::int64_t> touched_at_;
  std::uint64_t charged_ = 0;
  std::priority_queue<std::pair<std::int64_t, std::uint32_t>> queue_;  // next use, storage; some out of date
  Evictions evictions_;
};

}  // namespace

std::vector<bool> all_entries(const Liveness& liveness) {
  std::vector<bool> entry(liveness.storages());
  for (std::uint32_t i = 0; i < entry.size(); ++i) {
    const Life& life = liveness.life(StorageId{i});
    entry[i] = life.pageable && life.entry;
  }
  return entry;
}

Evictions choose_evictions(const Liveness& liveness, std::uint64_t space, std::vector<bool> entry, WindowEnds ends) {
  for (int sweep_number = 1;; ++sweep_number) {
    Sweep sweep(liveness, space, entry);
    sweep.run();
    if (sweep.resident() != entry && ends == WindowEnds::kFree && sweep_number < kMaxSweeps) {
      entry = sweep.resident();
      continue;
    }
    Evictions evictions = std::move(sweep.evictions());
    for (std::uint32_t i = 0; i < entry.size(); ++i) {
      const StorageId id{i};
      const std::size_t uses = liveness.uses(id).size();
      if (!liveness.life(id).entry || uses == 0 || entry[i]) continue;
      std::int64_t& wrapping = evictions.after_use[liveness.first_use(id) + uses - 1];
      wrapping = std::min<std::int64_t>(wrapping, liveness.ops());
    }
    return evictions;
  }
}

}  // namespace tensorpager::plan
