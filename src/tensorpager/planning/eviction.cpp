#include "tensorpager/planning/eviction.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <queue>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::planning {
namespace {

using trace::index;
using trace::StorageId;

/// It settles within a few sweeps; where it does not, the last one's decisions hold, and who differs is evicted.
constexpr int kMaxSweeps = 6;
constexpr std::size_t kSizes = 65;  // powers of two

class Sweep {
 public:
  Sweep(const Liveness& liveness, std::uint64_t space, const std::vector<bool>& entry, TransferCosts costs)
      : liveness_(liveness),
        space_(space),
        overhead_(static_cast<double>(costs.overhead)),
        both_ways_(costs.both_ways),
        resident_(entry),
        used_(entry.size()),
        touched_at_(entry.size(), -1),
        queues_(costs.overhead == 0 ? 2 : 2 * kSizes) {
    evictions_.after_use.assign(liveness.all_uses(), kNever);
    evictions_.unused_resident = entry;
    for (std::uint32_t i = 0; i < entry.size(); ++i) {
      if (!entry[i]) continue;
      charged_ += liveness.life(StorageId{i}).bytes;
      enqueue(StorageId{i});
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
        if (resident_[index(touch.storage)]) enqueue(touch.storage);
      }
    }
  }

  const std::vector<bool>& resident() const { return resident_; }
  Evictions& evictions() { return evictions_; }

 private:
  Idle idle(StorageId id) const { return liveness_.idle_after(id, used_[index(id)]); }

  using Queue = std::priority_queue<std::pair<std::int64_t, std::uint32_t>>;  // until, storage; some out of date

  void enqueue(StorageId id) {
    const std::size_t size = queues_.size() == 2 ? 0 : std::bit_width(liveness_.life(id).bytes);
    const Idle its = idle(id);
    queues_[2 * size + (its.dies ? 1 : 0)].emplace(its.until, index(id));
  }

  /// Returns the storage of a queue that is idle for longest, or nullopt if there is none.
  std::optional<std::uint32_t> last_used(Queue& queue, std::uint32_t op) const {
    for (; !queue.empty(); queue.pop()) {
      const auto [until, i] = queue.top();
      // An entry of before its last use, or of one that has died. What this op uses is put back after it.
      if (resident_[i] && touched_at_[i] != op && until == idle(StorageId{i}).until) return i;
    }
    return std::nullopt;
  }

  /// The number of ops for which the storage is idle, over the cost of its transfers a byte.
  double gain(std::uint32_t i, std::uint32_t op) const {
    const Idle its = idle(StorageId{i});
    const auto distance = static_cast<double>(its.until - op);
    const auto bytes = static_cast<double>(liveness_.life(StorageId{i}).bytes);
    return distance * (its.dies ? both_ways_ : 1) * bytes / (bytes + overhead_);
  }

  std::uint32_t take_victim(std::uint32_t op) {
    Queue* best = nullptr;
    double best_gain = -1;
    for (Queue& queue : queues_) {
      const auto candidate = last_used(queue, op);
      if (!candidate) continue;
      const double its = gain(*candidate, op);
      if (its <= best_gain) continue;
      best = &queue;
      best_gain = its;
    }
    TENSORPAGER_CHECK(best != nullptr);
    const std::uint32_t victim = best->top().second;
    best->pop();
    return victim;
  }

  void make_room(std::uint32_t op) {
    const std::uint64_t temporary = liveness_.temporary(op);
    while (charged_ + temporary > space_) {
      const std::uint32_t i = take_victim(op);
      const StorageId id{i};
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
  double overhead_;  // bytes
  double both_ways_;
  std::vector<bool> resident_;
  std::vector<std::uint32_t> used_;  // uses passed
  std::vector<std::int64_t> touched_at_;
  std::uint64_t charged_ = 0;
  std::vector<Queue> queues_;  // by size, or all sizes in one; of each, what comes back, and what does not
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

Evictions choose_evictions(const Liveness& liveness, std::uint64_t space, std::vector<bool> entry, WindowEnds ends,
                           TransferCosts costs) {
  for (int sweep_number = 1;; ++sweep_number) {
    Sweep sweep(liveness, space, entry, costs);
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

}  // namespace tensorpager::planning
