// A monotonic clock, for measuring only: decisions are made in logical time, never from these times.
#pragma once

#include <chrono>

namespace tensorpager::base {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Adds the seconds of its own lifetime to `total`, which must outlive it.
class [[nodiscard]] Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), begin_(seconds_now()) {}
  ~Stopwatch() { total_ += seconds_now() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  double begin_;
};

}  // namespace tensorpager::base
