#include <algorithm>
#include <utility>

#include "tensorpager/planning/eviction.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

class LongestIdle {
 public:
  LongestIdle(const Liveness& liveness, std::uint64_t space, const std::vector<Nanoseconds>& starts)
      : liveness_(liveness),
        ops_(liveness.ops()),
        space_(static_cast<std::int64_t>(space)),
        starts_(starts),
        charged_(liveness.ops()) {
    for (std::uint32_t op = 0; op < liveness.ops(); ++op)
      charge({.from = op, .until = op + 1}, static_cast<std::int64_t>(liveness.temporary(op)));
    for (std::uint32_t i = 0; i < liveness.storages(); ++i) {
      if (liveness.life(StorageId{i}).pageable) add_uses(StorageId{i});
    }
    std::ranges::stable_sort(gaps_, {}, [](const Gap& gap) { return std::pair(gap.entry, -gap.idle); });
  }

  Evictions evict() {
    Evictions evictions{.after_use = std::vector<std::int64_t>(liveness_.all_uses(), kNever),
                        .unused_resident = std::vector<bool>(liveness_.storages())};
    std::vector<Gap> evicted;
    for (const Gap& gap : gaps_) {
      if (!lacks(gap.stretch, 0)) continue;
      charge(gap.stretch, -gap.bytes);
      evicted.push_back(gap);
    }
    // The later ones may have made room enough for some of those before them.
    for (const Gap& gap : evicted) {
      if (lacks(gap.stretch, gap.bytes))
        evictions.after_use[gap.use] = gap.stretch.from;
      else
        charge(gap.stretch, gap.bytes);
    }
    return evictions;
  }

 private:
  struct Stretch {
    std::int64_t from;   // within the window
    std::int64_t until;  // counted on over its end, for a window at most
  };
  /// From one use of a storage to its next, or to its death.
  struct Gap {
    std::size_t use;  // counted over those of all storages
    Stretch stretch;
    std::int64_t bytes;
    bool entry;
    Nanoseconds idle;
  };

  void add_uses(StorageId id) {
    const auto uses = liveness_.uses(id);
    const auto bytes = static_cast<std::int64_t>(liveness_.life(id).bytes);
    for (std::size_t use = 0; use < uses.size(); ++use) {
      const std::int64_t op = uses[use].op;
      charge({.from = op, .until = op + 1}, bytes);
      const Idle idle = liveness_.idle_after(id, use + 1);
      const Stretch stretch{.from = op + 1, .until = std::min(idle.until + (idle.dies ? 1 : 0), op + ops_)};
      if (stretch.from >= stretch.until) continue;
      charge(stretch, bytes);
      gaps_.push_back({.use = liveness_.first_use(id) + use,
                       .stretch = stretch,
                       .bytes = bytes,
                       .entry = liveness_.life(id).entry,
                       .idle = time_at(stretch.until) - time_at(stretch.from)});
    }
  }

  Nanoseconds time_at(std::int64_t op) const {
    return starts_[static_cast<std::size_t>(op % ops_)] + op / ops_ * starts_.back();
  }

  /// Calls `use(begin, end)` for the one or two stretches of the window.
  template <typename Use>
  void within(Stretch stretch, Use use) const {
    if (stretch.from < ops_)
      use(static_cast<std::size_t>(stretch.from), static_cast<std::size_t>(std::min(stretch.until, ops_)));
    const std::int64_t from = std::max(stretch.from, ops_);
    if (stretch.until > from)
      use(static_cast<std::size_t>(from - ops_), static_cast<std::size_t>(stretch.until - ops_));
  }

  void charge(Stretch stretch, std::int64_t bytes) {
    within(stretch, [&](std::size_t begin, std::size_t end) { charged_.add(begin, end, bytes); });
  }

  /// Whether there is no room for so many more bytes somewhere.
  bool lacks(Stretch stretch, std::int64_t bytes) const {
    bool found = false;
    within(stretch, [&](std::size_t begin, std::size_t end) {
      found |= charged_.find_last_above(begin, end, space_ - bytes).has_value();
    });
    return found;
  }

  const Liveness& liveness_;
  std::int64_t ops_;
  std::int64_t space_;
  const std::vector<Nanoseconds>& starts_;
  SegmentTree charged_;
  std::vector<Gap> gaps_;
};

}  // namespace

Evictions evict_longest_idle(const Liveness& liveness, std::uint64_t space, const std::vector<Nanoseconds>& starts) {
  return LongestIdle(liveness, space, starts).evict();
}

}  // namespace tensorpager::planning
