// The line that a run prints at the end of its first process, whatever language the program is in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorpager/pager/statistics.h"

namespace tensorpager::session {

/// What the child processes of a run counted: sums, and of need, peak and excess the largest.
struct Children {
  std::uint64_t children = 0;
  std::uint64_t need_bytes = 0, peak_bytes = 0, over_budget_bytes = 0;
  std::uint64_t page_outs = 0, page_out_bytes = 0, page_ins = 0, page_in_bytes = 0;
  double stall_seconds = 0;
};

struct Ending {
  pager::Statistics counts;
  std::uint64_t outside_budget_bytes = 0;
  double wall_seconds = 0;
  std::optional<Children> children = {};  // none: no child told of itself
  std::string rank = {};                  // as torchrun numbers the process; empty: it is no rank
};

/// Without `tensorpager: ` before it.
std::string exit_line(const Ending& ending);

}  // namespace tensorpager::session
