#include "tensorpager/follow/window_history.h"

#include <algorithm>
#include <vector>

namespace tensorpager::follow {

namespace {

/// Windows that are remembered: evaluations that are rarer than that are never predicted.
constexpr std::size_t kRemembered = 512;

}  // namespace

void WindowHistory::note(std::size_t i) {
  ended_.push_back(i);
  if (ended_.size() > kRemembered) ended_.pop_front();
  likely_next_ = find_likely();
}

void WindowHistory::take_back() {
  ended_.pop_back();
  likely_next_ = find_likely();
}

void WindowHistory::start_after(std::size_t i) {
  ended_ = {i};
  likely_next_.reset();
}

std::optional<std::size_t> WindowHistory::find_likely() const {
  if (classes_ == 1) return std::nullopt;
  std::optional<std::size_t> likely;
  std::size_t longest = 0;
  std::vector<std::size_t> times(classes_);
  for (std::size_t end = ended_.size(); end-- > std::max<std::size_t>(longest, 1);) {  // `end` is what came next
    std::size_t length = 0;
    while (length < end && ended_[end - 1 - length] == ended_[ended_.size() - 1 - length]) ++length;
    if (length == 0 || length < longest) continue;
    if (length > longest) std::ranges::fill(times, 0);
    const bool is_first = length > longest;
    longest = length;
    if (++times[ended_[end]] > (is_first ? 0 : times[*likely])) likely = ended_[end];
  }
  return likely;
}

}  // namespace tensorpager::follow
