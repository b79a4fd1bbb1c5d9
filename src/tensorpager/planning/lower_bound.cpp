#include "tensorpager/planning/lower_bound.h"

#include <algorithm>
#include <set>

namespace tensorpager::planning {
namespace {

using trace::StorageId;

/// Ops that are looked at: statements are made between any two of them. More would bound a little better.
constexpr std::size_t kGrid = 400;

/// Bytes that are idle at an op, by one of the two uses around it.
class IdleBytes {
 public:
  void add(std::int64_t use, std::uint64_t bytes) { uses_.push_back({use, bytes}); }
  void sort() {
    std::ranges::sort(uses_, {}, &Entry::use);
    std::uint64_t sum = 0;
    for (Entry& entry : uses_) entry.bytes = sum += entry.bytes;
  }
  std::uint64_t before(std::int64_t op) const {
    const auto end = std::ranges::lower_bound(uses_, op, {}, &Entry::use);
    return end == uses_.begin() ? 0 : std::prev(end)->bytes;
  }
  std::uint64_t all() const { return uses_.empty() ? 0 : uses_.back().bytes; }

 private:
  struct Entry {
    std::int64_t use;
    std::uint64_t bytes;  // once sorted: of this entry and all before it
  };
  std::vector<Entry> uses_;
};

constexpr std::int64_t kAlways = -1;  // before any op: what is below from the beginning
constexpr std::int64_t kNotAgain = INT64_MAX;

struct IdleAt {
  IdleBytes since;  // by last write: from then on a copy may be made
  IdleBytes until;  // by next use
};

template <typename Use>
std::int64_t last_write(Use begin, Use end) {
  while (end != begin) {
    if ((--end)->write) return end->op;
  }
  return kAlways;
}

IdleAt idle_at(const Liveness& liveness, std::uint32_t op) {
  IdleAt idle;
  for (std::uint32_t i = 0; i < liveness.storages(); ++i) {
    const StorageId id{i};
    const Life& life = liveness.life(id);
    const auto uses = liveness.uses(id);
    const auto after = std::ranges::upper_bound(uses, op, {}, &Use::op);
    if (!life.pageable || (after != uses.begin() && std::prev(after)->op == op)) continue;
    const bool born = life.birth && *life.birth < op;
    const bool dead = life.death && *life.death < op;
    const bool alive = life.entry ? (!dead || born) : born && !dead;
    if (!alive) continue;
    // What lives on from the window before may be below from the beginning, and what lives on into the next need not
    // return.
    const bool first_life = life.entry && !born;
    idle.since.add(first_life ? kAlways : last_write(uses.begin(), after), life.bytes);
    const bool used_again = after != uses.end() && life.birth != after->op;
    idle.until.add(used_again ? after->op : kNotAgain, life.bytes);
  }
  idle.since.sort();
  idle.until.sort();
  return idle;
}

std::vector<std::uint32_t> choose_grid(const Liveness& liveness, base::Bytes budget) {
  std::set<std::uint32_t> grid = {0, liveness.ops(), liveness.need_op()};
  std::vector<std::uint32_t> over;
  for (std::uint32_t op = 0; op < liveness.ops(); ++op) {
    if (liveness.live(op) > budget) over.push_back(op);
  }
  for (std::size_t i = 0; i < kGrid; ++i) {
    if (!over.empty()) grid.insert(over[i * over.size() / kGrid]);
    if (i % 2 == 0) grid.insert(static_cast<std::uint32_t>(i * liveness.ops() / kGrid));
  }
  return {grid.begin(), grid.end()};
}

}  // namespace

Nanoseconds lower_bound(const Liveness& liveness, const std::vector<Nanoseconds>& op_times, const Machine& machine,
                        base::Bytes budget) {
  std::vector<Nanoseconds> compute = {Nanoseconds(0)};
  for (const Nanoseconds time : op_times) compute.push_back(compute.back() + time);
  const std::vector<std::uint32_t> grid = choose_grid(liveness, budget);
  const auto transfer = [](std::uint64_t bytes, const Link& link) {
    return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes) / link.fastest() * 1e9));
  };
  // By number in the grid: the earliest that the op can start. Page-outs are looked at from their end, page-ins from
  // their begin.
  std::vector<Nanoseconds> earliest(grid.size(), Nanoseconds(0));
  for (std::size_t k = 0; k < grid.size(); ++k) {
    if (k > 0) earliest[k] = std::max(earliest[k], earliest[k - 1] + compute[grid[k]] - compute[grid[k - 1]]);
    if (grid[k] == liveness.ops() || liveness.live(grid[k]) <= budget) continue;
    const std::uint64_t below = (liveness.live(grid[k]) - budget).count();
    const IdleAt idle = idle_at(liveness, grid[k]);
    for (std::size_t r = 0; r < k; ++r) {
      const std::uint64_t could_leave_before = idle.since.before(grid[r]);
      if (could_leave_before >= below) break;
      // The others leave after op r, or after one that comes later.
      const Nanoseconds leave = earliest[r] + op_times[grid[r]];
      earliest[k] = std::max(earliest[k], leave + transfer(below - could_leave_before, machine.out));
    }
    const Nanoseconds done = earliest[k] + op_times[grid[k]];
    for (std::size_t d = k + 1; d < grid.size(); ++d) {
      const std::uint64_t could_return_after = idle.until.all() - idle.until.before(std::int64_t{grid[d]} + 1);
      if (could_return_after >= below) continue;
      earliest[d] = std::max(earliest[d], done + transfer(below - could_return_after, machine.in));
    }
  }
  return earliest.back();
}

}  // namespace tensorpager::planning
