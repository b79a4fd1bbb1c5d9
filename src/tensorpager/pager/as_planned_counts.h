// Counts for the statistics how well the program does as its plan says: an op is as planned if the bytes that the plan
// has charged when it begins and ends are charged. Nothing is decided by it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/statistics.h"

namespace tensorpager::pager {

class AsPlannedCounts {
 public:
  explicit AsPlannedCounts(Statistics& counts) : counts_(counts) {}

  /// The expected op begins. `planned`: nullopt if the plan does not say.
  void op_begins(std::optional<base::Bytes> planned, base::Bytes charged) { began_ = compare(planned, charged); }
  void op_ends(std::optional<base::Bytes> planned, base::Bytes charged) {
    const bool is_whole = compare(planned, charged) && began_;
    if (planned) in_a_row_ = is_whole ? in_a_row_ + 1 : 0;  // else it was no op of the plan
    ++since_comparison_;
    counts_.ops_as_planned += is_whole ? 1 : 0;
    counts_.most_ops_as_planned_in_a_row = std::max(counts_.most_ops_as_planned_in_a_row, in_a_row_);
  }
  /// The source's count of misses, at each op.
  void note_misses(std::uint64_t misses) {
    if (misses != misses_) in_a_row_ = 0;
    misses_ = misses;
  }
  /// What a replay makes, in the op under way, is compared with what the program's op had made. That has stayed for it,
  /// and its bytes are charged.
  void note_comparison() { since_comparison_ = 0; }
  /// `ops`: of the window that the last op ended, each of which was the expected one; 0: none ended.
  void note_window(std::uint32_t ops) {
    if (ops == 0) return;
    ++counts_.followed_windows;
    if (in_a_row_ >= ops)
      ++counts_.windows_as_planned;
    else if (since_comparison_ <= ops)
      ++counts_.windows_of_comparisons;
  }

 private:
  bool compare(std::optional<base::Bytes> planned, base::Bytes charged) {
    if (!planned) return false;
    const base::Bytes difference = *planned > charged ? *planned - charged : charged - *planned;
    counts_.planned_difference_bytes = std::max(counts_.planned_difference_bytes, difference.count());
    return *planned == charged;
  }

  Statistics& counts_;
  bool began_ = false;                                                          // the op under way, as planned
  std::uint64_t in_a_row_ = 0;                                                  // ops
  std::uint64_t since_comparison_ = std::numeric_limits<std::uint32_t>::max();  // ops
  std::uint64_t misses_ = 0;
};

}  // namespace tensorpager::pager
