// Which storages are below, and between which of their uses: the first decision of a plan, by bytes alone. Belady's
// rule: where an op finds no room, the resident storage whose next use is farthest away goes. What dies unused gives
// its room until then only, but does not come back. Where each transfer costs compute something, however small it is,
// larger storages go before smaller ones that are used a little later. The window follows itself, so parameters have a
// next use too, and what is resident at its end must be what it began with: sweeps are repeated until that holds.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

inline constexpr std::int64_t kNever = INT64_MAX;

struct Evictions {
  /// By number of use (Liveness::first_use): the op at which its storage is evicted after it, counted on into the next
  /// window; kNever where it stays until its next use.
  std::vector<std::int64_t> after_use;
  /// Of each storage that no op uses: whether it is resident all the time.
  std::vector<bool> unused_resident;
};

enum class WindowEnds : std::uint8_t {
  kFree,   // whatever is best to have resident at the window's ends
  kFixed,  // the storages given
};

struct TransferCosts {
  std::uint64_t overhead = 0;  // bytes whose transfer costs as much as a transfer costs besides; 0: by next use alone
  double both_ways = 2;        // what going and coming back costs, for each that going alone does; at least 1
};

/// `space` is at least the floor without slabs. `entry`: by storage, whether it is resident when the window begins; a
/// first guess where the ends are free. Where they are fixed, the last op uses all of these.
Evictions choose_evictions(const Liveness& liveness, std::uint64_t space, std::vector<bool> entry, WindowEnds ends,
                           TransferCosts costs = {});

/// The rule of Meng et al. 2017, by time and for all storages: what is idle for longest goes, as far as an op has no
/// room without it. Parameters and the optimizer's state go last: they are all needed at once. The window's ends are
/// free. `starts` are the times at which ops start, and the window's end; `space` is as above.
Evictions evict_longest_idle(const Liveness& liveness, std::uint64_t space, const std::vector<Nanoseconds>& starts);

/// Marks the pageable storages that live over the window's end.
std::vector<bool> all_entries(const Liveness& liveness);

}  // namespace tensorpager::planning
