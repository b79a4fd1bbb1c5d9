// The dispatch keys of a replay: nothing is recorded, nobody intercepts.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "tensorpager/intercept/key.h"

namespace tensorpager::replay {

class BelowAutograd {
 public:
  /// `autocasts`: whether kernels that the op calls are autocast's, if the op was called so.
  explicit BelowAutograd(bool autocasts) : keys_(kIncluded, autocasts ? kExcluded : kExcluded | kAutocast) {}

 private:
  /// Must be there, as kernels call factories.
  static constexpr c10::DispatchKeySet kIncluded{c10::DispatchKey::BackendSelect};
  static constexpr c10::DispatchKeySet kExcluded =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(intercept::kKey);
  static constexpr c10::DispatchKeySet kAutocast = c10::autocast_dispatch_keyset;

  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace tensorpager::replay
