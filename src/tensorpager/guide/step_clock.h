// How long the program's latest steps took, from one end to the next: with all that it does, not only in torch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace tensorpager::guide {

class StepClock {
 public:
  /// `now`: seconds on a clock.
  void step_ends(double now) { ends_[count_++ % ends_.size()] = now; }

  /// The median of the latest steps, nine at most, in seconds; 0 before two have ended.
  double median() const {
    const std::size_t known = std::min(count_, ends_.size());
    if (known < 2) return 0;
    std::array<double, kEnds - 1> took{};
    for (std::size_t i = 0; i + 1 < known; ++i) took[i] = end(known - i - 1) - end(known - i);
    const auto last = took.begin() + static_cast<std::ptrdiff_t>(known - 1);
    std::sort(took.begin(), last);
    return took[(known - 1) / 2];
  }

 private:
  static constexpr std::size_t kEnds = 10;
  /// The end of a step, so many from the latest one on, which is 1.
  double end(std::size_t back) const { return ends_[(count_ - back) % ends_.size()]; }

  std::array<double, kEnds> ends_{};
  std::size_t count_ = 0;
};

}  // namespace tensorpager::guide
