// What to drop where the most bytes are live: storages that are idle there, the cheapest to rebuild for each byte
// first.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensorpager/planning/planner.h"
#include "tensorpager/planning/recomputation.h"

namespace tensorpager::planning {

class PeakShaving {
 public:
  /// `gaps`: Recomputation::droppable(). Both must outlive this.
  PeakShaving(const Groundwork& groundwork, const std::vector<Droppable>& gaps);

  /// By gap: the seconds that each byte dropped there costs, more than 0.
  const std::vector<double>& costs(Arguments arguments) const { return costs_[static_cast<std::size_t>(arguments)]; }
  /// Numbers of gaps, the cheapest for each byte first.
  const std::vector<std::uint32_t>& by_ratio(Arguments arguments) const {
    return by_ratio_[static_cast<std::size_t>(arguments)];
  }
  /// By op: the bytes that are live, but for what is dropped there.
  std::vector<std::int64_t> live_without(const std::vector<Drop>& dropped) const;
  /// Drops more until no op has more than `target` live bytes, or nothing is left to drop there. `costs` are by gap.
  /// With a `weight` above 0 it counts against a gap that others are rebuilt near its end.
  std::vector<Drop> shaved(std::vector<Drop> dropped, const std::vector<double>& costs, std::uint64_t target,
                           double weight = 0) const;

 private:
  const Liveness& liveness_;
  const std::vector<Droppable>& gaps_;
  std::array<std::vector<double>, 2> costs_;            // by Arguments
  std::array<std::vector<std::uint32_t>, 2> by_ratio_;  // by Arguments
};

}  // namespace tensorpager::planning
