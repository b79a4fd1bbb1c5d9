#include "tensorpager/plan/online.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/extents.h"
#include "tensorpager/plan/newest_by_range.h"

namespace tensorpager::plan {
namespace {

using base::Bytes;
using trace::index;

/// The boundary is settled by repetition, and shrinks each time but the first.
constexpr int kMaxPasses = 8;

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
      of.last_use = op;
      by_last_use_.emplace(of.last_use, touch.storage);
      of.dirty |= touch.write;
      ++of.used;
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

  /// Evicts something that the op does not use; false where there is nothing that would help.
  bool make_gap(std::uint64_t bytes, std::uint32_t op) {
    if (victim_ == Victim::kFarthestNextUse) return make_cheapest_gap(bytes, op);
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

  /// Transfers that it will take, over the time that there is for them.
  double cost_of(StorageId id, std::uint32_t op) const {
    const Block& of = blocks_[index(id)];
    const auto uses = liveness_.uses(id);
    const bool passed = of.used == uses.size();
    const std::int64_t next = passed ? std::int64_t{liveness_.ops()} + uses.front().op : uses[of.used].op;
    return static_cast<double>(liveness_.life(id).bytes) * (of.dirty ? 2 : 1) / static_cast<double>(next - op + 1);
  }

  void free_range(std::uint64_t offset, std::uint64_t bytes, std::int64_t op) {
    gaps_.give_back(offset, Bytes(bytes));
    freed_.set(offset, bytes, op);
  }

  /// Joins what stays over the window's end with what it began as; the rest leaves.
  void close_window() {
    const std::int64_t ops = liveness_.ops();
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
        for (Interval& interval : placement_.intervals) {
          if (interval.previous == of.first) interval.previous = of.interval;
        }
        first.bytes = 0;  // it is part of the last one now
      }
    }
  }

  const Liveness& liveness_;
  std::uint64_t space_;
  Victim victim_;
  const Boundary& boundary_;
  base::Extents gaps_;
  std::vector<Block> blocks_;
  std::map<std::uint64_t, StorageId> by_offset_;
  std::set<std::pair<std::int64_t, StorageId>> by_last_use_;
  NewestByRange<std::int64_t> freed_;  // the op before which bytes were freed
  std::uint64_t temporary_offset_ = 0;
  OnlinePlacement placement_;
};

/// Leaves out what became part of another interval.
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
                                                   const Boundary& boundary) {
  Pass pass(liveness, space, granule, Victim::kFarthestNextUse, boundary);
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

}  // namespace tensorpager::plan
