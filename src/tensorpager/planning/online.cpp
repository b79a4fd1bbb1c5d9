#include "tensorpager/planning/online.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/extents.h"
#include "tensorpager/planning/newest_by_range.h"

namespace tensorpager::planning {
namespace {

using base::Bytes;
using trace::index;

/// The boundary is settled by repetition, and shrinks each time but the first.
constexpr int kMaxPasses = 8;

/// Where more is resident, not all runs of neighbours are looked at: that takes the square of the trace.
constexpr std::size_t kAllRuns = 1024;
/// Only those round the storages that are idle for longest.
constexpr int kRuns = 32;

class Pass {
 public:
  Pass(const Liveness& liveness, std::uint64_t space, Bytes granule, Victim victim, const Boundary& boundary)
      : liveness_(liveness),
        space_(space),
        victim_(victim),
        boundary_(boundary),
        gaps_(Bytes(space), granule),
        blocks_(liveness.storages()) {
    // By offset, so that each is the next piece of the line, with a filler for what lies between.
    std::map<std::uint64_t, StorageId> by_offset;
    for (std::uint32_t i = 0; i < boundary.size(); ++i) {
      if (boundary[i]) by_offset.emplace(*boundary[i], StorageId{i});
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> fillers;
    for (const auto& [offset, id] : by_offset) {
      if (offset > gaps_.top()) {
        const std::uint64_t top = gaps_.top();
        fillers.emplace_back(top, offset - top);
        TENSORPAGER_CHECK(gaps_.take(Bytes(offset - top)) == top);
      }
      open(id, *gaps_.take(Bytes(liveness.life(id).bytes)), 0, Fill::kPageIn);
    }
    for (const auto& [offset, size] : fillers) gaps_.give_back(offset, Bytes(size));
  }

  void run() {
    for (std::uint32_t op = 0; op < liveness_.ops(); ++op) serve(op);
    close_window();
  }

  /// What was resident at the end, where it was; of what began there, only if it came back to the same offset.
  Boundary boundary_at_end(bool first) const {
    Boundary next(boundary_.size());
    for (std::uint32_t i = 0; i < next.size(); ++i) {
      const Block& block = blocks_[i];
      if (!liveness_.life(StorageId{i}).entry || !block.at_end) continue;
      if (first || block.at_end == boundary_[i]) next[i] = block.at_end;
    }
    return next;
  }

  OnlinePlacement result() { return std::move(placement_); }

 private:
  struct Block {
    std::optional<std::uint64_t> offset;   // while resident
    std::uint32_t interval = kNoInterval;  // the open one, else the last one
    std::uint32_t first = kNoInterval;     // of this window
    std::uint32_t used = 0;                // uses passed
    std::int64_t last_use = -1;            // of this window
    std::int64_t pinned_at = -1;
    bool dirty = false;
    std::optional<std::uint64_t> at_end;
  };

  using ByOffset = std::map<std::uint64_t, StorageId>;
  static constexpr double kPinned = std::numeric_limits<double>::infinity();

  struct Wanted {
    StorageId storage;
    std::uint64_t bytes;
    Fill fill;
  };

  Block& block(StorageId id) { return blocks_[index(id)]; }

  void open(StorageId id, std::uint64_t offset, std::uint32_t op, Fill fill) {
    const std::uint64_t bytes = id == kTemporary ? liveness_.temporary(op) : liveness_.life(id).bytes;
    placement_.earliest.push_back(freed_.newest(offset, bytes).value_or(0));
    Interval interval{.storage = id,
                      .bytes = bytes,
                      .begin = op,
                      .need = op,
                      .end = op + 1,
                      .release = op + 1,
                      .offset = offset,
                      .fill = fill};
    if (id != kTemporary) {
      Block& of = block(id);
      if (fill == Fill::kPageIn) interval.previous = of.interval;
      of.interval = static_cast<std::uint32_t>(placement_.intervals.size());
      if (of.first == kNoInterval) of.first = of.interval;
      of.offset = offset;
      of.dirty = fill == Fill::kBorn;
      by_offset_.emplace(offset, id);
      by_last_use_.emplace(of.last_use, id);
      by_idle_until_.emplace(idle(id).until, id);
    }
    placement_.intervals.push_back(interval);
  }

  void close(StorageId id, std::int64_t end, Leave leave) {
    Block& of = block(id);
    Interval& interval = placement_.intervals[of.interval];
    interval.end = interval.release = end;
    interval.leave = leave == Leave::kPageOut && !of.dirty ? Leave::kDrop : leave;
    free_range(*of.offset, interval.bytes, end);
    by_offset_.erase(*of.offset);
    by_last_use_.erase({of.last_use, id});
    by_idle_until_.erase({idle(id).until, id});
    of.offset.reset();
  }

  void evict(StorageId id, std::int64_t op) {
    const bool early = victim_ == Victim::kFarthestNextUse && block(id).pinned_at != op;
    close(id, early ? block(id).last_use + 1 : op, Leave::kPageOut);
  }

  void serve(std::uint32_t op) {
    std::vector<Wanted> wanted;
    for (const Touch& touch : liveness_.touches(op)) {
      Block& of = block(touch.storage);
      of.pinned_at = op;
      if (of.offset) continue;
      const Life& life = liveness_.life(touch.storage);
      wanted.push_back({touch.storage, life.bytes, life.birth == op ? Fill::kBorn : Fill::kPageIn});
    }
    if (liveness_.temporary(op) > 0) wanted.push_back({kTemporary, liveness_.temporary(op), Fill::kBorn});
    std::ranges::stable_sort(wanted, std::ranges::greater(), &Wanted::bytes);
    place(wanted, op);
    for (const Touch& touch : liveness_.touches(op)) {
      Block& of = block(touch.storage);
      by_last_use_.erase({of.last_use, touch.storage});
      by_idle_until_.erase({idle(touch.storage).until, touch.storage});
      of.last_use = op;
      of.dirty |= touch.write;
      ++of.used;
      by_last_use_.emplace(of.last_use, touch.storage);
      by_idle_until_.emplace(idle(touch.storage).until, touch.storage);
    }
    if (liveness_.temporary(op) > 0) free_range(temporary_offset_, liveness_.temporary(op), op + 1);
    for (const StorageId id : liveness_.deaths(op)) {
      if (block(id).offset) close(id, op + 1, Leave::kDies);
    }
  }

  void place(std::vector<Wanted> wanted, std::uint32_t op) {
    std::vector<std::uint64_t> offsets;
    for (const Wanted& want : wanted) {
      auto offset = gaps_.take(Bytes(want.bytes));
      while (!offset && make_gap(want.bytes, op)) offset = gaps_.take(Bytes(want.bytes));
      if (!offset) break;
      offsets.push_back(*offset);
    }
    if (offsets.size() < wanted.size()) {
      // The op's own storages are in the way: all of them leave, and come back stacked.
      for (std::size_t i = 0; i < offsets.size(); ++i) gaps_.give_back(offsets[i], Bytes(wanted[i].bytes));
      while (!by_offset_.empty()) {
        const StorageId id = by_offset_.begin()->second;
        if (block(id).pinned_at == op) wanted.push_back({id, liveness_.life(id).bytes, Fill::kPageIn});
        evict(id, op);
      }
      std::ranges::stable_sort(wanted, std::ranges::greater(), &Wanted::bytes);
      offsets.clear();
      for (const Wanted& want : wanted) offsets.push_back(gaps_.take(Bytes(want.bytes)).value());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      open(wanted[i].storage, offsets[i], op, wanted[i].fill);
      if (wanted[i].storage == kTemporary) temporary_offset_ = offsets[i];
    }
  }

  /// Evicts storages that the op does not use. Returns false if that does not help.
  bool make_gap(std::uint64_t bytes, std::uint32_t op) {
    if (victim_ == Victim::kFarthestNextUse)
      return (by_offset_.size() > kAllRuns && make_far_gap(bytes, op)) || make_cheapest_gap(bytes, op);
    for (const auto& [last_use, id] : by_last_use_) {
      if (block(id).pinned_at == op) continue;
      evict(id, op);
      return true;
    }
    return false;
  }

  bool make_cheapest_gap(std::uint64_t bytes, std::uint32_t op) {
    std::vector<std::pair<std::uint64_t, StorageId>> run(by_offset_.begin(), by_offset_.end());
    const auto end_of = [&](std::size_t i) { return run[i].first + liveness_.life(run[i].second).bytes; };
    double cost = 0;
    double best_cost = 0;
    std::size_t best_first = 0;
    std::size_t best_end = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (block(run[i].second).pinned_at == op) {
        first = i + 1;
        cost = 0;
        continue;
      }
      cost += cost_of(run[i].second, op);
      const std::uint64_t next = i + 1 < run.size() ? run[i + 1].first : space_;
      const auto room_from = [&](std::size_t from) { return next - (from > 0 ? end_of(from - 1) : 0); };
      for (; first < i && room_from(first + 1) >= bytes; ++first) cost -= cost_of(run[first].second, op);
      if (room_from(first) < bytes || (best_end > 0 && cost >= best_cost)) continue;
      best_cost = cost;
      best_first = first;
      best_end = i + 1;
    }
    for (std::size_t i = best_first; i < best_end; ++i) evict(run[i].second, op);
    return best_end > 0;
  }

  struct Run {
    ByOffset::const_iterator first;
    ByOffset::const_iterator end;
    double cost;
  };

  /// The cheapest of the runs that grow, to the cheaper side each time, from what is used the farthest from now.
  bool make_far_gap(std::uint64_t bytes, std::uint32_t op) {
    std::optional<Run> best;
    int runs = 0;
    for (auto far = by_idle_until_.rbegin(); far != by_idle_until_.rend() && runs < kRuns; ++far, ++runs) {
      const auto run = grow_run(far->second, bytes, op);
      if (run && (!best || run->cost < best->cost)) best = run;
    }
    if (!best) return false;
    std::vector<StorageId> leaving;
    for (auto block = best->first; block != best->end; ++block) leaving.push_back(block->second);
    for (const StorageId id : leaving) evict(id, op);
    return true;
  }

  /// Returns nullopt if the op's own storages leave too little room between them.
  std::optional<Run> grow_run(StorageId from, std::uint64_t bytes, std::uint32_t op) const {
    const auto cost = [&](ByOffset::const_iterator block) {
      return blocks_[index(block->second)].pinned_at == op ? kPinned : cost_of(block->second, op);
    };
    Run run{.first = by_offset_.find(*blocks_[index(from)].offset), .end = {}, .cost = 0};
    run.cost = cost(run.first);
    run.end = std::next(run.first);
    while (run.cost < kPinned) {
      const auto before = run.first == by_offset_.begin() ? by_offset_.end() : std::prev(run.first);
      const std::uint64_t begin = before == by_offset_.end() ? 0 : before->first + liveness_.life(before->second).bytes;
      if ((run.end == by_offset_.end() ? space_ : run.end->first) - begin >= bytes) return run;
      const double cost_before = before == by_offset_.end() ? kPinned : cost(before);
      const double cost_after = run.end == by_offset_.end() ? kPinned : cost(run.end);
      run.cost += std::min(cost_before, cost_after);
      if (cost_before < cost_after)
        run.first = before;
      else if (run.end != by_offset_.end())
        ++run.end;
    }
    return std::nullopt;
  }

  Idle idle(StorageId id) const { return liveness_.idle_after(id, blocks_[index(id)].used); }

  /// The bytes of transfers that an eviction causes, over the time until the next use.
  double cost_of(StorageId id, std::uint32_t op) const {
    const Block& of = blocks_[index(id)];
    const Idle its = idle(id);
    return static_cast<double>(liveness_.life(id).bytes) * ((of.dirty ? 1 : 0) + (its.dies ? 0 : 1)) /
           static_cast<double>(its.until - op + 1);
  }

  void free_range(std::uint64_t offset, std::uint64_t bytes, std::int64_t op) {
    gaps_.give_back(offset, Bytes(bytes));
    freed_.set(offset, bytes, op);
  }

  /// Joins intervals that stay over the window's end with those that they continue in; the others leave.
  void close_window() {
    const std::int64_t ops = liveness_.ops();
    std::vector<std::uint32_t> joined(placement_.intervals.size(), kNoInterval);  // to which each is joined
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
      const StorageId id{i};
      Block& of = blocks_[i];
      of.at_end = of.offset;
      if (!liveness_.life(id).entry || of.first == kNoInterval) continue;
      Interval& first = placement_.intervals[of.first];
      Interval& last = placement_.intervals[of.interval];
      if (!boundary_[i]) {
        if (of.offset) close(id, ops, Leave::kPageOut);
        if (first.fill == Fill::kPageIn) first.previous = of.interval;
      } else if (of.offset == boundary_[i] && of.interval == of.first) {
        first.begin = first.need = 0;
        first.end = first.release = ops;
        first.fill = Fill::kBoundary;
        first.leave = Leave::kBoundary;
      } else if (of.offset == boundary_[i]) {
        last.end = last.release = ops + first.end;
        last.leave = first.leave == Leave::kDrop && of.dirty ? Leave::kPageOut : first.leave;
        joined[of.first] = of.interval;
        first.bytes = 0;  // it is part of the last one now
      }
    }
    for (Interval& interval : placement_.intervals) {
      if (interval.previous != kNoInterval && joined[interval.previous] != kNoInterval)
        interval.previous = joined[interval.previous];
    }
  }

  const Liveness& liveness_;
  std::uint64_t space_;
  Victim victim_;
  const Boundary& boundary_;
  base::Extents gaps_;
  std::vector<Block> blocks_;
  ByOffset by_offset_;
  std::set<std::pair<std::int64_t, StorageId>> by_last_use_;
  std::set<std::pair<std::int64_t, StorageId>> by_idle_until_;
  NewestByRange<std::int64_t> freed_;  // the op before which bytes were freed
  std::uint64_t temporary_offset_ = 0;
  OnlinePlacement placement_;
};

/// Removes intervals that were joined to others.
OnlinePlacement without_joined(OnlinePlacement from) {
  OnlinePlacement kept;
  std::vector<std::uint32_t> number(from.intervals.size(), kNoInterval);
  for (std::size_t i = 0; i < from.intervals.size(); ++i) {
    if (from.intervals[i].bytes == 0) continue;
    number[i] = static_cast<std::uint32_t>(kept.intervals.size());
    kept.intervals.push_back(from.intervals[i]);
    kept.earliest.push_back(from.earliest[i]);
  }
  for (Interval& interval : kept.intervals) {
    if (interval.previous != kNoInterval) interval.previous = number[interval.previous];
  }
  return kept;
}

}  // namespace

std::optional<OnlinePlacement> place_online_within(const Liveness& liveness, std::uint64_t space, base::Bytes granule,
                                                   const Boundary& boundary, Victim victim) {
  Pass pass(liveness, space, granule, victim, boundary);
  pass.run();
  if (pass.boundary_at_end(false) != boundary) return std::nullopt;
  return without_joined(pass.result());
}

OnlinePlacement place_online(const Liveness& liveness, std::uint64_t space, base::Bytes granule, Victim victim) {
  Boundary boundary(liveness.storages());
  for (int pass_number = 0;; ++pass_number) {
    if (pass_number == kMaxPasses) boundary.assign(liveness.storages(), std::nullopt);
    Pass pass(liveness, space, granule, victim, boundary);
    pass.run();
    Boundary next = pass.boundary_at_end(pass_number == 0);
    if ((pass_number > 0 && next == boundary) || pass_number == kMaxPasses) return without_joined(pass.result());
    boundary = std::move(next);
  }
}

}  // namespace tensorpager::planning
