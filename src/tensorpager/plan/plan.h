// A plan: the table of resident intervals of one window, and what it promises. A plain value that planners make, and
// that validator, simulator, reports and the pager read.
//
// How a plan is followed, by op index alone. At op e:
//   1. rows with begin = e, in the order of the table: the block is taken. `wait` names a page-out that must be done
//      before, and so all older ones: a page-in is submitted at once and waits for it in its queue, else compute waits.
//      Compute is sure of what a page-in waited for, or one before it, once it has waited for that page-in;
//   2. compute waits for the page-ins of rows with need = e; the op runs;
//   3. rows with end = e + 1 leave: page-outs are submitted in the order of their tickets, other blocks are free at
//   once.
// The block of a page-out is charged until a row's wait covers it, the queue's or compute's. Page-outs and page-ins are
// two queues, each in order; a page-in also starts no earlier than the last page-out of its own storage is done. After
// the last op comes op 0 again: rows that leave by the boundary continue in those that come from it, at the same
// offset. Plans that share a boundary table (boundary.h) may follow each other.
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

/// Stands for what an op allocates and frees again.
inline constexpr StorageId kTemporary{UINT32_MAX};

enum class Fill : std::uint8_t { kBoundary, kPageIn, kBorn };
enum class Leave : std::uint8_t { kBoundary, kPageOut, kDrop, kDies };

struct Row {
  StorageId storage = kTemporary;
  base::Bytes bytes = {};    // charged
  std::uint64_t offset = 0;  // of its block in the arena
  std::uint32_t begin = 0;   // op before which the block is taken
  std::uint32_t need = 0;    // first op that uses it; the number of ops where only the next window does
  std::uint32_t end = 0;     // it leaves before this op
  std::uint32_t wait = 0;  // ticket of the newest page-out to wait for, in the newest window that submitted it; 0: none
  Fill fill = Fill::kBorn;
  Leave leave = Leave::kDies;
};

/// What a plan promises for the machine it was made for, in the steady state of windows that follow one another.
struct Prediction {
  std::chrono::nanoseconds step{0};     // the window's time
  std::chrono::nanoseconds compute{0};  // of its ops alone
  base::Bytes page_out = {};
  base::Bytes page_in = {};
  base::Bytes peak = {};
  std::vector<base::Bytes> curve = {};  // charged while each op runs, slabs included

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct Plan {
  std::string planner = {};
  std::string machine = {};
  base::Bytes budget = {};
  base::Bytes slab = {};     // at the arena's end, for storages that are never evicted
  base::Bytes reserve = {};  // before it, for blocks that no plan knows
  std::uint32_t ops = 0;
  bool shared_boundary = false;  // other plans may come before: what comes from the boundary may be dirty
  std::vector<Row> rows = {};    // by begin, and in the order in which they begin
  Prediction predicted = {};

  /// Where planned blocks may be: below this.
  base::Bytes space() const { return budget - slab - reserve; }
  /// End of the highest planned block.
  base::Bytes top() const;
};

/// Where compute waits while a plan is followed.
struct Stall {
  enum class Cause : std::uint8_t { kPageIn, kPageOut };

  std::uint32_t op;   // that waited
  std::uint32_t row;  // whose page-in it needs, or for whose block a page-out must be done
  Cause cause;
  std::chrono::nanoseconds time;
};

/// Indices of the rows that leave by a page-out, in the order of their tickets: ticket t is at t - 1.
std::vector<std::uint32_t> page_outs_of(const std::vector<Row>& rows);

/// The order of the table: by begin; what is from the boundary first, then page-ins, then births; then by need.
inline auto order_of(const Row& row) {
  return std::tuple(row.begin, row.fill, row.need, trace::index(row.storage), row.end);
}

}  // namespace tensorpager::plan
