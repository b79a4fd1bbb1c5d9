#include "tensorpager/replay/leaf.h"

#include <c10/core/DispatchKey.h>

namespace tensorpager::replay {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// Keys whose kernels are torch's own and leave an op what it is. They have no backend's key.
constexpr DispatchKeySet kTransparent =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    DispatchKeySet({DispatchKey::BackendSelect, DispatchKey::Dense, DispatchKey::Conjugate, DispatchKey::Negative});

}  // namespace

bool is_leaf(const OpRule& rule, DispatchKeySet after, base::Device device) {
  if (!rule.is_torchs && !rule.is_trusted.load(std::memory_order_relaxed)) return false;
  const OpRule::OfDevice& on_device = rule.on(device);
  if (!on_device.has_kernel || rule.has_own_autograd) return false;
  if (on_device.has_autocast_kernel && after.has_any(c10::autocast_dispatch_keyset)) return false;
  return (after - kTransparent).highestFunctionalityKey() == DispatchKey::Undefined;
}

}  // namespace tensorpager::replay
