// What a window could drop and rebuild, and the replays that rebuild it.
//
// A storage may be dropped between two of its uses if every op that had written it by then can run again before the
// second: the op is pure, and its arguments are there as they were, or can be rebuilt themselves. What is rebuilt only
// as an argument of another replay is freed after it, or is kept for more replays that need it: the keys of an
// attention, say, of which each step's scores are rebuilt. A storage that is rebuilt as an argument before the program
// needs it stays until then; or it is freed, too, and is rebuilt again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/plan/versions.h"
#include "tensorpager/planning/names.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::planning {

/// A choice of more replays for each op of the window than this is worth nothing.
inline constexpr std::size_t kMostReplaysAnOp = 4;

/// A storage that may be dropped between two of its uses.
struct Droppable {
  StorageId storage;
  std::uint64_t bytes;  // charged
  std::uint32_t from;   // the use before
  std::uint32_t to;     // the use that needs it again
  Nanoseconds cost;     // of the replays that rebuild it, if nothing else is dropped
  Nanoseconds shared;   // the same, if what several of these gaps need is divided among them
};

/// What becomes of a storage between two of its uses.
enum class Drop : std::uint8_t {
  kKept,
  kOnce,   // dropped, and rebuilt for whatever needs it first
  kAgain,  // dropped, and rebuilt for each replay that needs it before its second use, and for that
};

/// What becomes of arguments that are dead in the window and were rebuilt for a replay.
enum class Arguments : std::uint8_t { kFreed, kKeptForMore };

class Recomputation {
 public:
  /// `op_times` by op of the trace, which must outlive this.
  Recomputation(const trace::Trace& trace, const Liveness& liveness, const std::vector<Nanoseconds>& op_times);

  /// By `to`.
  const std::vector<Droppable>& droppable() const { return droppable_; }

  /// The replays that rebuild what is dropped, in the order in which plan::rewrite takes them. `dropped` is by number
  /// of droppable(). Returns nullopt if there would be more than `most`, or if arguments of arguments are too many.
  std::optional<std::vector<Replay>> replays(const std::vector<Drop>& dropped, std::size_t most,
                                             Arguments arguments) const;

 private:
  class Builder;

  /// Versions of all storages have consecutive numbers.
  std::size_t node(StorageId id, std::uint32_t version) const { return first_node_[trace::index(id)] + version; }
  /// The last op before which the version can be had, by being there or by replays.
  std::uint32_t available_until(StorageId id, std::uint32_t version) const;
  std::uint32_t rebuildable_until(StorageId id, std::uint32_t version) const;
  void find_gaps(const Liveness& liveness);
  void find_costs(const std::vector<Nanoseconds>& op_times);
  void index_gaps();
  std::span<const std::uint32_t> gaps_of(StorageId id) const {
    const std::size_t begin = gap_begins_[trace::index(id)];
    return {gaps_.data() + begin, gap_begins_[trace::index(id) + 1] - begin};
  }

  const trace::Trace& trace_;
  plan::Versions versions_;
  std::vector<std::size_t> first_node_;           // by storage
  std::vector<std::uint32_t> rebuildable_until_;  // by node; 0: never
  std::vector<Droppable> droppable_;
  std::vector<std::uint32_t> gaps_;      // numbers of droppable_, by storage
  std::vector<std::size_t> gap_begins_;  // in gaps_, by storage; then the end
};

}  // namespace tensorpager::planning
