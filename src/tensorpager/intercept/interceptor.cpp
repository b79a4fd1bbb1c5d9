#include "tensorpager/intercept/interceptor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "tensorpager/intercept/boxed_call.h"
#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/fallthrough.h"
#include "tensorpager/intercept/foreign.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/hot_ops.h"
#include "tensorpager/intercept/key.h"
#include "tensorpager/intercept/list_ops.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/intercept/op_protocol.h"
#include "tensorpager/intercept/python_dispatch.h"

namespace tensorpager::intercept {

namespace {

/// Calls pass through, or their kernels are called by the runner. By itself, so that the path of all others stays
/// short.
[[gnu::noinline, gnu::cold]] void run_boxed_otherwise(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                                      torch::jit::Stack* stack) {
  if (g_target.calls == Calls::kPassThrough) return op.redispatchBoxed(after_key(keys), stack);
  const OpInfo& info = op_info(op);
  if (info.list_op && run_in_parts(op, info, keys, *stack)) return;
  if (info.collective)
    run_op(BoxedCall(op, info, keys, *stack));
  else
    run_op(HandedOnCall(op, info, keys, *stack));
}

}  // namespace

void run_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (g_target.calls != Calls::kSeen) [[unlikely]]
    return run_boxed_otherwise(op, keys, stack);
  const OpInfo& info = op_info(op);
  if (info.list_op && run_in_parts(op, info, keys, *stack)) return;
  run_op(BoxedCall(op, info, keys, *stack));
}

void install(pager::Pager& pager, const arena::AddressSpace& space, c10::DeleterFnPtr claimed, base::Device recorded) {
  g_target.pager = &pager;
  g_target.space = &space;
  g_target.claimed = claimed;
  pager.set_relief(&wait_for_a_collective);
  // Leaked: threads may be inside our kernels until the process ends.
  auto* all = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&run_boxed>());
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  register_fallthroughs(*aten, recorded == base::Device::kCuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
  register_hot_ops(*aten);
  see_python_dispatch();
}

pager::Block* find_block(c10::StorageImpl& storage) {
  pager::Block* found = nullptr;
  g_target.finder().in_storage(storage, [&](pager::Block& block) { found = &block; });
  return found;
}

std::array<std::mutex*, 2> locks_over_forks() { return {&foreign_lock(), &collectives_lock()}; }

void observe_products(void (*observer)()) { g_target.before_products = observer; }

void record_device(DeviceStorages* storages) { g_target.device = storages; }

void divide_lists_for(std::optional<base::Bytes> budget) { g_target.parts_for = budget; }

void know_purity_by(PurityOf purity_of) { g_target.purity_of = purity_of; }

void see_calls(const KernelRunner& runner) {
  g_target.runner = runner;
  g_target.calls = runner.run == nullptr ? Calls::kSeen : runner.wants == nullptr ? Calls::kHandedOn : Calls::kWatched;
}

void pass_calls_through() { g_target.calls = Calls::kPassThrough; }

void enter_thread() {
  if (g_target.calls == Calls::kPassThrough) return;
  if (!pager::t_state.entered) [[unlikely]] {
    pager::t_state.entered = true;
    pager::t_state.is_collectives = pager::t_state.keeps_allocations = is_collective_thread();
  }
  if (!c10::impl::tls_is_dispatch_key_included(kKey)) c10::impl::tls_set_dispatch_key_included(kKey, true);
}

void leave_thread() { c10::impl::tls_set_dispatch_key_included(kKey, false); }

}  // namespace tensorpager::intercept
