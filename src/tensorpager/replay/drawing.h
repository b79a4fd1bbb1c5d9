// Whether a call that draws from a generator was the only one that drew meanwhile. If it was not, the state that was
// kept before it may not be the one that it drew from. Calls that other threads make outside of ops are not seen.
#pragma once

#include <atomic>
#include <cstdint>

namespace tensorpager::replay {

/// From before a call that draws until after it.
class Drawing {
 public:
  /// `draws`: whether the call may. Draws inside one that draws are a part of it.
  explicit Drawing(bool draws) : is_outermost_(draws && t_depth++ == 0), draws_(draws) {
    if (!is_outermost_) return;
    was_alone_ = s_running.fetch_add(1) == 0;
    number_ = s_begun.fetch_add(1) + 1;
  }
  ~Drawing() {
    if (draws_) --t_depth;
    if (is_outermost_) s_running.fetch_sub(1);
  }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  /// To be asked after the call.
  bool is_alone() const { return !is_outermost_ || (was_alone_ && s_begun.load() == number_); }

 private:
  inline static std::atomic<std::uint64_t> s_begun{0};
  inline static std::atomic<int> s_running{0};
  inline static constinit thread_local int t_depth = 0;

  bool is_outermost_;
  bool draws_;
  bool was_alone_ = true;
  std::uint64_t number_ = 0;
};

}  // namespace tensorpager::replay
