// A plan: the table of the intervals of one window in which storages are resident, and a prediction. A plain value that
// planners make, and that the validator, the simulator, reports and the pager read.
//
// How a plan is followed, by op index alone. At op e:
//   1. Rows with begin = e take their blocks, in the order of the table. `wait` is the ticket of a page-out that must
//      be done before, and so all older ones: a page-in is submitted at once and waits in its queue; for any other row
//      compute waits. Compute may rely on what a page-in, or one before it, waited for only once it has waited for that
//      page-in.
//   2. Compute waits for the page-ins of rows with need = e; the op runs.
//   3. Rows with end = e + 1 leave: page-outs are submitted in the order of their tickets, other blocks are free at
//      once.
// The block of a page-out is charged until a row's wait covers it, in the queue or by compute. Page-outs and page-ins
// are two queues, each in order; a page-in also starts no earlier than the last page-out of its own storage is done.
// After the last op comes op 0 again: rows that leave by the boundary continue in those that come from it, at the same
// offset. Plans that share a boundary table (boundary_table.h) may follow each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

using trace::StorageId;

/// The storage of rows for temporaries, which an op allocates and frees again.
inline constexpr StorageId kTemporary{UINT32_MAX};

enum class Fill : std::uint8_t { kBoundary, kPageIn, kBorn };
enum class Leave : std::uint8_t { kBoundary, kPageOut, kDrop, kDies };

/// How the planner `pages` placed the blocks of a plan; docs/plans.md explains each.
enum class Technique : std::uint8_t {
  kNone,  // of another planner, or not known
  kPacked,
  kPackedForLess,  // planned for less than the budget
  kShorterTails,
  kOverTransfers,
  kOverTransfersAgain,  // with the ends of page-outs from the plan before
  kOnlineByNextUse,
  kOnlineByRecency,
};

struct Row {
  StorageId storage = kTemporary;
  base::Bytes bytes = {};    // charged
  std::uint64_t offset = 0;  // of its block in the arena
  std::uint32_t begin = 0;   // op before which the block is taken
  std::uint32_t need = 0;    // first op that uses it; the number of ops if only the next window uses it
  std::uint32_t end = 0;     // it leaves before this op
  std::uint32_t wait = 0;    // ticket of the page-out to wait for, in the newest window that submitted it; 0: none
  Fill fill = Fill::kBorn;
  Leave leave = Leave::kDies;
};

/// An op of the trace that runs again, with the arguments that it had, to make a storage that was dropped.
struct Replay {
  std::uint32_t op = 0;
  std::uint32_t before = 0;           // the op of the trace before which it runs
  std::vector<StorageId> keeps = {};  // of what it makes; the rest is freed at once

  friend bool operator==(const Replay&, const Replay&) = default;
};

/// The prediction of a plan for the machine it was made for, in the steady state of repeated windows.
struct Prediction {
  std::chrono::nanoseconds step{0};     // time of the window
  std::chrono::nanoseconds compute{0};  // of its ops alone, replays too
  base::Bytes page_out = {};
  base::Bytes page_in = {};
  base::Bytes peak = {};
  std::vector<base::Bytes> curve = {};  // charged while each op runs, slabs included

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct Plan {
  std::string planner = {};
  Technique technique = Technique::kNone;
  std::string machine = {};
  base::Bytes budget = {};
  base::Bytes slab = {};     // at the arena's end, for storages that are never evicted
  base::Bytes reserve = {};  // below the slab, for unplanned blocks
  std::uint32_t ops = 0;
  std::vector<Replay> replays =
      {};  // by the op before which they run; ops and storages of rows are of the trace rewritten with them
  bool shared_boundary = false;  // another plan may run before: storages that come from the boundary may be dirty
  std::vector<Row> rows = {};    // by begin, and in the order in which they begin
  Prediction predicted = {};

  /// The end of the range in which planned blocks are placed.
  base::Bytes space() const { return budget - slab - reserve; }
  /// End of the highest planned block.
  base::Bytes top() const;
};

/// A wait of compute while a plan is followed.
struct Stall {
  enum class Cause : std::uint8_t { kPageIn, kPageOut };

  std::uint32_t op;   // the op that waits
  std::uint32_t row;  // the row whose page-in it needs, or whose block needs a page-out to be done
  Cause cause;
  std::chrono::nanoseconds time;
};

/// Indices of the rows that leave by a page-out, in the order of their tickets: ticket t is at t - 1.
std::vector<std::uint32_t> page_outs_of(const std::vector<Row>& rows);

/// The most bytes that have a slot in the tier at once in the steady state. A storage has one from its page-out on
/// until it dies, or gets another by its next page-out.
base::Bytes host_bytes(const Plan& plan);

/// The order of the table: by begin; then rows from the boundary, page-ins, births; then by need.
inline auto order_of(const Row& row) {
  return std::tuple(row.begin, row.fill, row.need, trace::index(row.storage), row.end);
}

}  // namespace tensorpager::plan
