// The line that a run prints when its first process ends, in C++ and Python programs alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorpager/pager/statistics.h"

namespace tensorpager::session {

/// The figures of the child processes of a run: sums; the maximum of need, peak and excess.
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
  std::optional<Children> children = {};  // nullopt: no child reported figures
  std::string rank = {};                  // rank that torchrun gave the process; empty if it has none
};

/// The line without the prefix `tensorpager: `.
std::string exit_line(const Ending& ending);

}  // namespace tensorpager::session
