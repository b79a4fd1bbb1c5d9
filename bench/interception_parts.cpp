// The interceptor taken apart: the same key with a kernel that does only the first parts of the work, so that
// differences say what each costs. A module of its own, which must not share a process with tensorpager's: both would
// sit on the key.
#include <pybind11/pybind11.h>

#include "tensorpager/arena/slabs.h"
#include "tensorpager/intercept/fallthrough.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/hot_ops.h"
#include "tensorpager/intercept/interceptor.h"
#include "tensorpager/intercept/key.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/memory/torch_allocator.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/thread_state.h"
#include "tensorpager/replay/capturing.h"
#include "tensorpager/transfer/queues.h"

namespace {

using namespace tensorpager;

// Leaked, as in a session.
auto& space = *new arena::AddressSpace;
auto& binding = *new memory::StableBinding(space);
auto& the_pager = *new pager::Pager(space, binding, std::make_unique<pager::LruPolicy>());
auto& slabs = *new arena::Slabs([] { return the_pager.storages().acquire_slab_chunk(arena::Slabs::kChunk); });
auto& allocator = *new memory::TorchAllocator(the_pager, slabs, [] {});
auto& replayer = *new replay::Replayer(the_pager);

void redispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(intercept::after_key(keys), stack);
}

volatile std::uintptr_t g_sink = 0;

void visit(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const intercept::OpInfo& info = intercept::op_info(op);
  const std::size_t first = stack->size() - info.arguments;
  std::uintptr_t sum = 0;
  for (const auto& argument : info.tensor_arguments)
    intercept::g_target.finder().in_value((*stack)[first + argument.index], [&](pager::Block& block) {
      sum += reinterpret_cast<std::uintptr_t>(&block);
    });
  g_sink = sum;
  op.redispatchBoxed(intercept::after_key(keys), stack);
}

std::unique_ptr<torch::Library> all, aten;

/// Each op is the next row of a window of so many.
void run_as_next_row(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack) {
  constexpr std::uint64_t kRows = 1000;
  pager::t_state.replayed_later = 1 + ++pager::t_state.followed_ops % kRows;
  replay::capturing_runner(replay::Captures::kPlanned).run(op, after, stack);
}

void see_calls(const std::string& level) {
  pager::t_state.replayed_later = level == "captured" ? 1 : 0;
  const bool watches = level == "captured" || level == "watched";
  the_pager.dropped().set_rebuilder(watches ? &replayer : nullptr);
  if (watches) replay::start_capturing(replayer, replay::Captures::kPlanned, base::Device::kHost);
  intercept::KernelRunner runner;
  if (watches) runner = replay::capturing_runner(replay::Captures::kPlanned);
  if (level == "captured") runner.run = &run_as_next_row;
  intercept::see_calls(runner);
}

/// none: the key is off; key: on, and everything falls through; boxing: every call is boxed and sent on; visit: the
/// blocks of its arguments are found; pins: all that the product does, boxed; fallthrough: views and composites pass;
/// unboxed: hot ops too, which is the product; watched: as where a plan replays other ops; captured: as where it
/// replays each op.
void set_level(const std::string& level) {
  c10::impl::tls_set_dispatch_key_included(intercept::kKey, false);
  all.reset();
  aten.reset();
  intercept::pass_calls_through();
  if (level == "none") return;
  const auto library = [](const char* name) {
    return std::make_unique<torch::Library>(torch::Library::IMPL, name, intercept::kKey, __FILE__, __LINE__);
  };
  all = library("_");
  if (level == "key")
    all->fallback(torch::CppFunction::makeFallthrough());
  else if (level == "boxing")
    all->fallback(torch::CppFunction::makeFromBoxedFunction<&redispatch>());
  else if (level == "visit")
    all->fallback(torch::CppFunction::makeFromBoxedFunction<&visit>());
  else
    all->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept::run_boxed>());
  if (level == "fallthrough" || level == "unboxed" || level == "watched" || level == "captured") {
    aten = library("aten");
    intercept::register_fallthroughs(*aten, c10::DispatchKey::CPU);
    if (level != "fallthrough") intercept::register_hot_ops(*aten);
  }
  see_calls(level);
  c10::impl::tls_set_dispatch_key_included(intercept::kKey, true);
}

bool installed = false;

void set_allocator(bool ours) {
  if (ours == installed) return;
  installed = ours;
  if (ours)
    allocator.install();
  else
    allocator.uninstall();
}

}  // namespace

PYBIND11_MODULE(interception_parts, module) {
  intercept::g_target.pager = &the_pager;
  intercept::g_target.space = &space;
  the_pager.start({}, transfer::make_synchronous_queues(transfer::make_ram_tier()));
  module.def("set_level", &set_level);
  module.def("set_allocator", &set_allocator);
}
