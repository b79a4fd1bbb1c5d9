// How the window under way and what is resident stand to the plan. What happens, and how it stands then:
//
//               a window begins  other sizes  disturbed   put right
//   kWhole      kWhole           kPartial     kDisturbed  -
//   kPartial    kWhole           kPartial     kDisturbed  -
//   kDisturbed  kContinued       kDisturbed   kDisturbed  kPartial
//   kElsewhere  kContinued       kElsewhere   kElsewhere  kPartial
//   kContinued  kContinued       kElsewhere   kElsewhere  kWhole
//
// When the window is another plan's it is kElsewhere; when it continues one that another plan has followed whole so
// far, kContinued.
#pragma once

#include <cstdint>

namespace tensorpager::follow {

enum class Standing : std::uint8_t {
  kWhole,      // each op of the window was the expected one, and used and held what the plan knows
  kPartial,    // not so, and blocks are where the plan has them
  kDisturbed,  // not so, nor are they; that is put right when the next window begins
  kElsewhere,  // the ops before were not of this plan, or of another part of it; put right when its next op begins
  kContinued,  // likewise, and the window is whole so far
};

constexpr bool is_whole(Standing standing) { return standing == Standing::kWhole || standing == Standing::kContinued; }

constexpr bool is_elsewhere(Standing standing) {
  return standing == Standing::kElsewhere || standing == Standing::kContinued;
}

constexpr Standing window_begins(Standing standing) {
  const bool is_as_planned = standing == Standing::kWhole || standing == Standing::kPartial;
  return is_as_planned ? Standing::kWhole : Standing::kContinued;
}

/// An op was called with other sizes than planned.
constexpr Standing resized(Standing standing) {
  if (standing == Standing::kWhole) return Standing::kPartial;
  return standing == Standing::kContinued ? Standing::kElsewhere : standing;
}

/// Something is not as the plan has it.
constexpr Standing disturbed(Standing standing) {
  return is_elsewhere(standing) ? Standing::kElsewhere : Standing::kDisturbed;
}

/// All blocks are brought to where the plan has them.
constexpr Standing put_right(Standing standing) { return is_whole(standing) ? Standing::kWhole : Standing::kPartial; }

}  // namespace tensorpager::follow
