#include "tensorpager/session/exit_line.h"

#include <array>
#include <cstdio>

#include "tensorpager/base/bytes.h"

namespace tensorpager::session {
namespace {

std::string size(std::uint64_t bytes) { return base::format_bytes(base::Bytes(bytes)); }

std::string seconds(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

/// The paging figures of a process, or of its children.
template <typename Counts>
std::string paging(const Counts& counts) {
  return std::to_string(counts.page_outs) + " page-outs " + size(counts.page_out_bytes) + ", " +
         std::to_string(counts.page_ins) + " page-ins " + size(counts.page_in_bytes) + "; stalled " +
         seconds(counts.stall_seconds);
}

template <typename Counts>
std::string excess(const Counts& counts) {
  return counts.over_budget_bytes > 0 ? "; OVER BUDGET by " + size(counts.over_budget_bytes) : "";
}

std::string process(const Ending& ending) {
  const pager::Statistics& counts = ending.counts;
  const std::string budget =
      "budget " + (counts.budget_bytes < base::kUnlimited.count() ? size(counts.budget_bytes) : "unlimited");
  if (counts.need_bytes == 0) return budget + "; no tensors in this process";
  return "need " + size(counts.need_bytes) + ", " + budget + ", peak " + size(counts.peak_bytes) + " (floor " +
         size(counts.floor_bytes) + "); " + paging(counts) + " of " + seconds(ending.wall_seconds) + " s";
}

std::string text_of(const Children& children) {
  const std::string number =
      children.children == 1 ? "1 child process" : std::to_string(children.children) + " child processes";
  return "; " + number + ": need at most " + size(children.need_bytes) + ", peak at most " + size(children.peak_bytes) +
         "; " + paging(children) + " s" + excess(children);
}

}  // namespace

std::string exit_line(const Ending& ending) {
  std::string text = (ending.rank.empty() ? "" : "rank " + ending.rank + ": ") + process(ending);
  if (ending.counts.pinned_bytes > 0) text += "; pinned " + size(ending.counts.pinned_bytes);
  text += excess(ending.counts);
  if (ending.outside_budget_bytes > 0)
    text += "; " + size(ending.outside_budget_bytes) + " of foreign memory outside the budget";
  if (ending.children) text += text_of(*ending.children);
  return text;
}

}  // namespace tensorpager::session
