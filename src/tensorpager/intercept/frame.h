// One op under way: its pins, and the error if they do not fit. A C++ object on the stack, so that unwinding undoes it.
#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <optional>
#include <string>
#include <type_traits>

#include "tensorpager/base/errors.h"
#include "tensorpager/intercept/device_storages.h"
#include "tensorpager/intercept/kernel_runner.h"
#include "tensorpager/intercept/purity_of.h"
#include "tensorpager/intercept/tensors.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/pager/shortage.h"

namespace tensorpager::intercept {

/// What happens to a call.
enum class Calls : std::uint8_t {
  kPassThrough,  // its kernel is called, and nothing else
  kHandedOn,     // seen, and its kernel is called by the runner
  kSeen,
  kWatched,  // seen, and its kernel is called by the runner if the runner wants that
};

/// What the interceptor works on. Set once, before the first op is seen; the objects live for ever.
struct Target {
  pager::Pager* pager = nullptr;
  const arena::AddressSpace* space = nullptr;
  c10::DeleterFnPtr claimed = nullptr;  // see BlockFinder
  DeviceStorages* device = nullptr;     // an accelerator's, if they are recorded instead of the host's
  std::atomic<Calls> calls = Calls::kPassThrough;
  KernelRunner runner;                   // of kHandedOn and kWatched
  PurityOf purity_of = nullptr;          // for recorded ops; null if nobody knows
  void (*before_products)() = nullptr;   // of matrices
  std::optional<base::Bytes> parts_for;  // see divide_lists_for

  /// The sink of recorded ops; null if nothing is recorded.
  base::EventSink* sink() const { return device != nullptr ? device->sink() : pager->sink(); }
  BlockFinder finder() const { return {*pager, *space, claimed}; }
  bool announces_writes() const { return runner.before_write != nullptr; }
  /// Something that the runner does not run is about to write the block, and it announces writes.
  void announce_write(pager::Block& block) const {
    if (block.is_versioned.load(std::memory_order_relaxed)) runner.before_write(block);
  }
};
extern Target g_target;

/// The recorded storage of an accelerator that the tensor lies in; nullopt if it is none.
std::optional<DeviceStorages::Found> find_of_device(const at::TensorBase& tensor);

/// `aten::mm(float32[64, 32], float32[32, 16])`, for errors.
std::string describe_call(const char* op, c10::ArrayRef<at::TensorBase> tensors);
std::string describe_call(const char* op, c10::ArrayRef<c10::IValue> arguments);

/// torch's out-of-memory error, with the op and what it needs. Handles an error of the allocator, or of admission.
[[noreturn]] void throw_out_of_memory(const std::string& call, const std::string& shortage);

/// The same without the op, for an outer frame to name.
[[noreturn]] void throw_shortage(const char* shortage);

class Frame {
 public:
  /// `room` belongs to the op and lives for ever; null if the op has none.
  explicit Frame(pager::WorkingRoom* room, pager::Temporaries temporaries = pager::Temporaries::kKeep)
      : pins_(*g_target.pager, temporaries, room) {}

  void see(pager::Block& block, pager::Access access) { pins_.see(block, access); }
  void see(const at::TensorBase& tensor, pager::Access access) {
    g_target.finder().in_tensor(tensor, [&](pager::Block& block) { see(block, access); });
  }
  void see(const c10::IValue& value, pager::Access access) {
    g_target.finder().in_value(value, [&](pager::Block& block) { see(block, access); });
  }
  void see(c10::StorageImpl& storage, pager::Access access) {
    g_target.finder().in_storage(storage, [&](pager::Block& block) { see(block, access); });
  }

  /// Whether plans and recorders are notified of the op. Of one that Python implements they are not: what it calls is
  /// reported.
  bool is_reported() const { return pins_.keeps_temporaries() && !pager::t_state.is_collectives; }

  /// Notifies a plan, if one is followed, of the op, whose name's hash is `name()`, and pins all that was seen. Throws
  /// torch's out-of-memory error without the op.
  template <typename Name>
  void admit(Name&& name) {
    if (pins_.is_followed() && is_reported()) follow(name());
    or_throw_shortage([&] { pins_.admit(); });
  }

  /// R1: whether results stay pinned in the op that called this one. Returns false if that op does not keep them.
  bool hands_results_up() const { return pins_.parent() != nullptr && pins_.parent()->keeps_temporaries(); }
  /// Whether results must be visited: to hand them up, or because their storages claim their blocks now. Those of a
  /// factory do so when an op first sees them: until then code past all ops may be filling them, as torch.tensor()
  /// does.
  bool wants_results(bool is_factory) const {
    return hands_results_up() || (g_target.claimed != nullptr && !is_factory);
  }
  template <typename Value>
  void take_result(const Value& value) {
    const bool keeps = hands_results_up();
    const auto keep = [&](pager::Block& block) {
      if (keeps) pins_.parent()->keep(block);
    };
    if constexpr (std::is_base_of_v<at::TensorBase, Value>)
      g_target.finder().in_tensor(value, keep);
    else
      g_target.finder().in_value(value, keep);
  }

  const pager::PinSet& pins() const { return pins_; }

 private:
  template <typename Attempt>
  static void or_throw_shortage(Attempt&& attempt) {
    try {
      attempt();
    } catch (const base::OverBudget& error) {
      throw_shortage(error.what());
    } catch (const base::IoError& error) {
      throw_shortage(error.what());
    }
  }
  [[gnu::noinline]] void follow(std::uint64_t name) {
    or_throw_shortage([&] { pins_.follow(name); });
  }

  pager::PinSet pins_;
};

}  // namespace tensorpager::intercept
