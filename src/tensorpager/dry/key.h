// The dispatch key that the skipper sits on, and the guards under which it calls ops of its own.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tensorpager::dry {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kAfterKey{c10::DispatchKeySet::FULL_AFTER, kKey};

/// What a kernel calls runs for real, and is otherwise seen as ever.
struct UnskippedGuard {
  c10::impl::ExcludeDispatchKeyGuard without{c10::DispatchKeySet(kKey)};
};

/// Ops go straight to the backend: no autograd, no autocast, not skipped and not recorded.
struct BackendGuard {
  c10::impl::ExcludeDispatchKeyGuard without{c10::DispatchKeySet(c10::DispatchKeySet::FULL) - kAfterKey};
};

}  // namespace tensorpager::dry
