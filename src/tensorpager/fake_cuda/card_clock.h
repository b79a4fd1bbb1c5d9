// The time that passes on the card, whatever the kernels' stand-ins on the CPU take: each piece of work begins when the
// one before it in its queue, what the queue waits for and the host's call are done, and takes what `Speeds` says. So
// it is known when the work is queued. The host itself takes no time; its clock is that of what it has waited for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tensorpager/fake_cuda/speeds.h"

namespace tensorpager::fake_cuda {

/// Seconds since the process began. Not thread-safe.
class CardClock {
 public:
  CardClock(Speeds speeds, int queues) : speeds_(std::move(speeds)), ends_(static_cast<std::size_t>(queues)) {}

  void add(int queue, const Work& work) { at(queue) = now(queue) + speeds_.time_of(work); }
  /// When all that the queue was given is done; not before the host's call.
  double now(int queue) const { return std::max(ends_[static_cast<std::size_t>(queue)], host_); }
  void block(int queue, double until) { at(queue) = std::max(at(queue), until); }
  void host_waits(double until) { host_ = std::max(host_, until); }
  /// When all that was queued is done.
  double end() const { return std::max(host_, *std::ranges::max_element(ends_)); }

 private:
  double& at(int queue) { return ends_[static_cast<std::size_t>(queue)]; }

  Speeds speeds_;
  std::vector<double> ends_;  // by queue
  double host_ = 0;
};

}  // namespace tensorpager::fake_cuda
