// The dispatch key that our kernels sit on: a mode key that torch reserves for tests and nothing uses. It comes above
// autograd and below functorch's own; once included in a thread's key set, every call of that thread comes to us first.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace tensorpager::intercept {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// The keys that are left once we had our turn.
inline c10::DispatchKeySet after_key(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
}

/// Whether `__torch_dispatch__` of an argument or of a mode implements the call: ops with storages are those that it
/// calls. Without this, what it calls would be a part of an op of which no argument has a storage, as of DTensor's.
inline bool goes_to_python(c10::DispatchKeySet keys) { return keys.has(c10::DispatchKey::Python); }

}  // namespace tensorpager::intercept
