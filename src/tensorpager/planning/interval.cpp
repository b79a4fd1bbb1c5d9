#include "tensorpager/planning/interval.h"

#include <algorithm>
#include <span>
#include <utility>

namespace tensorpager::planning {
namespace {

/// The uses of one storage in the order of its life, counted on over the window's end.
class LifeOfUses {
 public:
  LifeOfUses(const Liveness& liveness, StorageId id) : liveness_(liveness), uses_(liveness.uses(id)) {
    const Life& life = liveness.life(id);
    if (life.birth)
      start_ = static_cast<std::size_t>(std::ranges::lower_bound(uses_, *life.birth, {}, &Use::op) - uses_.begin());
  }

  std::size_t size() const { return uses_.size(); }
  /// Begins the life at another use: one that follows an eviction, for a storage without a birth.
  void start_at(std::size_t use) { start_ = use; }
  std::size_t number(std::size_t i) const { return (start_ + i) % uses_.size(); }
  std::int64_t op(std::size_t i) const { return uses_[number(i)].op + window(i); }
  bool write(std::size_t i) const { return uses_[number(i)].write; }
  std::int64_t window(std::size_t i) const { return start_ + i >= uses_.size() ? liveness_.ops() : 0; }

 private:
  const Liveness& liveness_;
  std::span<const Use> uses_;
  std::size_t start_ = 0;
};

class Maker {
 public:
  Maker(const Liveness& liveness, const Evictions& evictions, bool early)
      : liveness_(liveness), evictions_(evictions), early_(early) {}

  std::vector<Interval> make() {
    const std::int64_t ops = liveness_.ops();
    for (std::uint32_t i = 0; i < liveness_.storages(); ++i) {
      const StorageId id{i};
      if (!liveness_.life(id).pageable) continue;
      if (liveness_.life(id).birth)
        add_life(id);
      else if (liveness_.uses(id).empty() ? evictions_.unused_resident[i] : !add_cycle(id))
        intervals_.push_back({.storage = id,
                              .bytes = liveness_.life(id).bytes,
                              .end = ops,
                              .release = ops,
                              .fill = Fill::kBoundary,
                              .leave = Leave::kBoundary});
    }
    for (std::uint32_t op = 0; op < liveness_.ops(); ++op) {
      if (liveness_.temporary(op) > 0)
        intervals_.push_back(
            {.bytes = liveness_.temporary(op), .begin = op, .need = op, .end = op + 1, .release = op + 1});
    }
    return std::move(intervals_);
  }

 private:
  std::int64_t evicted_after(StorageId id, const LifeOfUses& life, std::size_t i) const {
    const std::int64_t op = evictions_.after_use[liveness_.first_use(id) + life.number(i)];
    return op == kNever ? kNever : op + life.window(i);
  }

  void add_run(StorageId id, const LifeOfUses& life, std::size_t first, std::size_t last, std::int64_t end, Fill fill,
               Leave leave) {
    // An interval is told from the window in which it is needed.
    const std::int64_t window = life.window(first);
    bool dirty = fill == Fill::kBorn;
    for (std::size_t i = first; i <= last; ++i) dirty |= life.write(i);
    if (leave == Leave::kPageOut && !dirty) leave = Leave::kDrop;
    intervals_.push_back({.storage = id,
                          .bytes = liveness_.life(id).bytes,
                          .begin = life.op(first) - window,
                          .need = life.op(first) - window,
                          .end = end - window,
                          .release = end - window,
                          .fill = fill,
                          .leave = leave});
  }

  std::int64_t end_after(StorageId id, const LifeOfUses& life, std::size_t i) const {
    return early_ ? life.op(i) + 1 : std::max(evicted_after(id, life, i), life.op(i) + 1);
  }

  /// From a birth to a death.
  void add_life(StorageId id) {
    const LifeOfUses life(liveness_, id);
    const Life& of = liveness_.life(id);
    const std::int64_t death = *of.death + 1 + (*of.death < *of.birth ? std::int64_t{liveness_.ops()} : 0);
    std::size_t first = 0;
    for (std::size_t i = 0; i < life.size(); ++i) {
      const bool evicted = evicted_after(id, life, i) < death;
      if (!evicted && i + 1 < life.size()) continue;
      const std::int64_t end = evicted ? end_after(id, life, i) : death;
      add_run(id, life, first, i, end, first == 0 ? Fill::kBorn : Fill::kPageIn,
              evicted ? Leave::kPageOut : Leave::kDies);
      if (first > 0) intervals_.back().previous = static_cast<std::uint32_t>(intervals_.size() - 2);
      first = i + 1;
    }
  }

  /// Adds the intervals of a storage that lives on. Returns false if it is never evicted.
  bool add_cycle(StorageId id) {
    LifeOfUses life(liveness_, id);
    std::size_t evicted = 0;
    while (evicted < life.size() && evicted_after(id, life, evicted) == kNever) ++evicted;
    if (evicted == life.size()) return false;
    life.start_at((evicted + 1) % life.size());
    const auto before = static_cast<std::uint32_t>(intervals_.size());
    std::size_t first = 0;
    for (std::size_t i = 0; i < life.size(); ++i) {
      if (evicted_after(id, life, i) == kNever) continue;
      add_run(id, life, first, i, end_after(id, life, i), Fill::kPageIn, Leave::kPageOut);
      first = i + 1;
    }
    const auto after = static_cast<std::uint32_t>(intervals_.size());
    for (std::uint32_t k = before; k < after; ++k) intervals_[k].previous = k == before ? after - 1 : k - 1;
    return true;
  }

  const Liveness& liveness_;
  const Evictions& evictions_;
  bool early_;
  std::vector<Interval> intervals_;
};

}  // namespace

std::vector<Interval> make_intervals(const Liveness& liveness, const Evictions& evictions, bool early) {
  return Maker(liveness, evictions, early).make();
}

std::vector<Row> make_rows(const std::vector<Interval>& intervals, std::uint32_t ops,
                           std::vector<std::uint32_t>* ticket_of) {
  struct Source {
    Row row;
    std::uint32_t interval;
  };
  std::vector<Source> sources;
  sources.reserve(intervals.size() + intervals.size() / 8);
  for (std::uint32_t i = 0; i < intervals.size(); ++i) {
    const Interval& from = intervals[i];
    const auto at = [](std::int64_t op) { return static_cast<std::uint32_t>(op); };
    Row row{.storage = from.storage,
            .bytes = base::Bytes(from.bytes),
            .offset = from.offset,
            .begin = at(from.begin),
            .need = at(from.need),
            .end = at(std::min<std::int64_t>(from.end, ops)),
            .fill = from.fill,
            .leave = from.leave};
    if (from.end > ops) {
      Row rest = row;
      rest.begin = rest.need = 0;
      rest.end = at(from.end - ops);
      rest.fill = Fill::kBoundary;
      row.leave = Leave::kBoundary;
      sources.push_back({rest, i});
    }
    sources.push_back({row, i});
  }
  std::ranges::sort(sources, {}, [](const Source& source) { return order_of(source.row); });
  std::vector<Row> rows;
  rows.reserve(sources.size());
  for (const Source& source : sources) rows.push_back(source.row);
  if (ticket_of != nullptr) {
    ticket_of->assign(intervals.size(), 0);
    std::uint32_t ticket = 0;
    for (const std::uint32_t i : page_outs_of(rows)) (*ticket_of)[sources[i].interval] = ++ticket;
  }
  return rows;
}

}  // namespace tensorpager::planning
