#include "tensorpager/planning/recomputation.h"

#include <algorithm>
#include <utility>

#include "tensorpager/plan/rewriting.h"

namespace tensorpager::planning {
namespace {

using plan::is_cloned;
using plan::is_made_anew;
using trace::index;
using trace::Op;
using trace::Purity;

/// What takes more replays than this to rebuild, with everything else there, is not dropped.
constexpr std::size_t kMostReplaysOfOne = 64;
/// Arguments of arguments: each takes of the stack.
constexpr int kDeepest = 4000;
/// A gap of fewer ops frees its bytes for nothing worth a replay.
constexpr std::uint32_t kShortestGap = 4;

bool has(const std::vector<StorageId>& list, StorageId id) { return std::ranges::find(list, id) != list.end(); }

}  // namespace

/// Goes through the window and collects replays.
class Recomputation::Builder {
 public:
  Builder(const Recomputation& of, const std::vector<Drop>& dropped, std::size_t most, Arguments arguments)
      : of_(of),
        most_(most),
        arguments_(arguments),
        missing_(dropped),
        built_at_(of.rebuildable_until_.size(), kNowhere) {}

  std::optional<std::vector<Replay>> run() {
    for (std::uint32_t i = 0; i < missing_.size(); ++i) {
      if (missing_[i] == Drop::kKept) continue;
      const Droppable& gap = of_.droppable_[i];
      build(gap.storage, of_.versions_.before(gap.to, gap.storage), gap.to);
      if (is_too_much()) return std::nullopt;
    }
    return std::move(replays_);
  }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  bool is_dead(StorageId id, std::uint32_t op) const {
    return op > of_.versions_.until(id, static_cast<std::uint32_t>(of_.versions_.writers(id).size()));
  }

  bool is_entry(StorageId id) const { return of_.trace_.storages[index(id)].entry; }

  /// Returns the gap in which the storage is dropped before the op, or `kNowhere`.
  std::uint32_t gap_at(StorageId id, std::uint32_t op) const {
    for (const std::uint32_t i : of_.gaps_of(id)) {
      const Droppable& gap = of_.droppable_[i];
      if (gap.from < op && op <= gap.to && missing_[i] != Drop::kKept) return i;
    }
    return kNowhere;
  }

  void build(StorageId id, std::uint32_t version, std::uint32_t before) {
    if (is_entry(id) || is_too_much()) return;
    const bool is_alive = before <= of_.versions_.until(id, version) && version > 0;
    const std::uint32_t gap = is_alive ? gap_at(id, before) : kNowhere;
    if (is_alive && gap == kNowhere) return;
    const std::uint32_t built_at = built_at_[of_.node(id, version)];
    if (built_at == before) return;
    if (arguments_ == Arguments::kKeptForMore && built_at != kNowhere && is_dead(id, built_at)) return;
    if (gap != kNowhere && (missing_[gap] == Drop::kOnce || of_.droppable_[gap].to == before)) {
      missing_[gap] = Drop::kKept;
    }
    ++depth_;
    is_too_deep_ |= depth_ > kDeepest;
    const std::span<const std::uint32_t> makers = of_.versions_.makers(id, version);
    auto reached = version - static_cast<std::uint32_t>(makers.size());
    for (const std::uint32_t writer : makers) {
      const Op& op = of_.trace_.ops[writer];
      for (const StorageId read : op.reads) {
        if (read != id && !is_cloned(of_.trace_, op, read)) build(read, of_.versions_.before(writer, read), before);
      }
      run_again(writer, id, before);
      built_at_[of_.node(id, reached)] = kNowhere;  // overwritten
      built_at_[of_.node(id, ++reached)] = before;
    }
    --depth_;
  }

  bool is_too_much() const { return replays_.size() > most_ || is_too_deep_; }

  void run_again(std::uint32_t op, StorageId id, std::uint32_t before) {
    const bool is_new = is_made_anew(of_.trace_.ops[op], id);
    if (is_new) {
      // Another of its results may have been asked for already.
      for (auto replay = replays_.rbegin(); replay != replays_.rend() && replay->before == before; ++replay) {
        if (replay->op != op || replay->keeps.empty()) continue;
        if (!has(replay->keeps, id)) {
          replay->keeps.push_back(id);
          return;
        }
      }
    }
    replays_.push_back({.op = op, .before = before, .keeps = {}});
    if (is_new) replays_.back().keeps.push_back(id);
  }

  const Recomputation& of_;
  std::size_t most_;
  Arguments arguments_;
  std::vector<Drop> missing_;            // by gap; kKept where it is rebuilt, too
  std::vector<std::uint32_t> built_at_;  // by node: the op before which it was rebuilt last
  std::vector<Replay> replays_;
  int depth_ = 0;
  bool is_too_deep_ = false;
};

Recomputation::Recomputation(const trace::Trace& trace, const Liveness& liveness,
                             const std::vector<Nanoseconds>& op_times)
    : trace_(trace), versions_(trace) {
  std::size_t nodes = 0;
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
    first_node_.push_back(nodes);
    nodes += versions_.writers(StorageId{i}).size() + 1;
  }
  rebuildable_until_.resize(nodes);
  // An op's arguments were written before it: their versions are known when it is reached.
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const auto* list : {&trace.ops[op].writes, &trace.ops[op].births}) {
      for (const StorageId id : *list) {
        const std::uint32_t version = versions_.before(op, id) + 1;
        rebuildable_until_[node(id, version)] = rebuildable_until(id, version);
      }
    }
  }
  find_gaps(liveness);
  index_gaps();
  find_costs(op_times);
  index_gaps();
}

void Recomputation::find_costs(const std::vector<Nanoseconds>& op_times) {
  std::vector<Drop> one(droppable_.size());
  std::vector<Droppable> kept;
  std::vector<std::vector<std::uint32_t>> ops;      // by gap that is kept
  std::vector<std::int64_t> gaps(op_times.size());  // by op: that need it
  for (std::size_t i = 0; i < droppable_.size(); ++i) {
    one[i] = Drop::kOnce;
    const auto its = replays(one, kMostReplaysOfOne, Arguments::kFreed);
    one[i] = Drop::kKept;
    if (!its) continue;
    ops.emplace_back();
    for (const Replay& replay : *its) {
      droppable_[i].cost += op_times[replay.op];
      ops.back().push_back(replay.op);
      ++gaps[replay.op];
    }
    kept.push_back(droppable_[i]);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const std::uint32_t op : ops[i]) kept[i].shared += op_times[op] / gaps[op];
  }
  droppable_ = std::move(kept);
}

void Recomputation::index_gaps() {
  gap_begins_.assign(trace_.storages.size() + 1, 0);
  for (const Droppable& gap : droppable_) ++gap_begins_[index(gap.storage) + 1];
  for (std::size_t i = 1; i < gap_begins_.size(); ++i) gap_begins_[i] += gap_begins_[i - 1];
  gaps_.resize(droppable_.size());
  std::vector<std::size_t> next(gap_begins_);
  for (std::uint32_t i = 0; i < droppable_.size(); ++i) gaps_[next[index(droppable_[i].storage)]++] = i;
}

std::uint32_t Recomputation::available_until(StorageId id, std::uint32_t version) const {
  const std::uint32_t there = versions_.until(id, version);
  return trace_.storages[index(id)].entry ? there : std::max(there, rebuildable_until_[node(id, version)]);
}

std::uint32_t Recomputation::rebuildable_until(StorageId id, std::uint32_t version) const {
  if (trace_.storages[index(id)].entry) return 0;
  const std::uint32_t writer = versions_.writers(id)[version - 1];
  const Op& op = trace_.ops[writer];
  if (op.purity == Purity::kNever) return 0;
  auto until = static_cast<std::uint32_t>(trace_.ops.size());
  for (const StorageId written : op.writes) {
    if (written != id && !is_cloned(trace_, op, written)) return 0;
  }
  if (!is_made_anew(op, id)) until = rebuildable_until_[node(id, version - 1)];
  for (const StorageId read : op.reads) {
    if (read == id || is_cloned(trace_, op, read)) continue;
    until = std::min(until, available_until(read, versions_.before(writer, read)));
  }
  return until;
}

void Recomputation::find_gaps(const Liveness& liveness) {
  for (std::uint32_t i = 0; i < liveness.storages(); ++i) {
    const StorageId id{i};
    const Life& life = liveness.life(id);
    if (!life.pageable || life.entry) continue;
    const std::span<const Use> uses = liveness.uses(id);
    for (std::size_t use = 1; use < uses.size(); ++use) {
      const std::uint32_t from = uses[use - 1].op;
      const std::uint32_t to = uses[use].op;
      if (to - from < kShortestGap || rebuildable_until_[node(id, versions_.before(to, id))] < to) continue;
      droppable_.push_back({.storage = id, .bytes = life.bytes, .from = from, .to = to, .cost = {}, .shared = {}});
    }
  }
  std::ranges::sort(droppable_, {}, [](const Droppable& gap) { return std::pair(gap.to, index(gap.storage)); });
}

std::optional<std::vector<Replay>> Recomputation::replays(const std::vector<Drop>& dropped, std::size_t most,
                                                          Arguments arguments) const {
  return Builder(*this, dropped, most, arguments).run();
}

}  // namespace tensorpager::planning
