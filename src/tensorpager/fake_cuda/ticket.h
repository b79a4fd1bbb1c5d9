// A place in a queue, and what is known to be done once that place is reached: a vector clock with an entry a queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensorpager::fake_cuda {

/// By queue: all tasks up to this one (counted from 1) happened before.
using Clock = std::vector<std::uint64_t>;

inline void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i)
    if (other[i] > clock[i]) clock[i] = other[i];
}

/// What an event holds after it was recorded.
struct Ticket {
  int queue = -1;  // -1: never recorded, and so always done
  std::uint64_t position = 0;
  Clock clock = {};
  double recorded_at = 0;  // seconds; on the card's clock when the place is reached
};

}  // namespace tensorpager::fake_cuda
