#include "tensorpager/replay/capturing.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/replay/drawing.h"
#include "tensorpager/replay/in_leaf.h"
#include "tensorpager/replay/leaf.h"
#include "tensorpager/replay/op_rules.h"
#include "tensorpager/replay/stand_in.h"
#include "tensorpager/replay/storages.h"

namespace tensorpager::replay {
namespace {

Replayer* g_replayer = nullptr;
std::atomic<bool> g_captures_all{false};
std::atomic<base::Device> g_device{base::Device::kHost};  // whose kernels' calls are captured
/// Of kAll: whether what the outermost op of this thread calls is left out, so that paths without capture are tested.
constinit thread_local bool t_is_left_out = false;

bool is_outermost() { return pager::t_state.top->parent() == nullptr; }

/// Calls `visit(block)` for each block behind the tensors of a value.
template <typename Visit>
void for_each_block(const c10::IValue& value, Visit&& visit) {
  intercept::for_each_tensor(value, [&](const at::TensorBase& tensor) {
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    if (pager::Block* const block = storage ? block_of(storage) : nullptr) visit(*block);
  });
}

/// The versioned blocks that a call writes, from before it until after it.
class Writing {
 public:
  explicit Writing(std::vector<std::uint64_t> blocks) : blocks_(std::move(blocks)) {
    if (blocks_.empty()) return;
    const std::vector<std::uint64_t> dependents = g_replayer->recipes().begin_write(blocks_);
    try {
      for (const std::uint64_t dependent : dependents) g_replayer->rebuild(dependent);
    } catch (...) {
      g_replayer->recipes().end_write(blocks_);
      throw;
    }
  }
  ~Writing() { end(); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  void end() {
    if (!blocks_.empty()) g_replayer->recipes().end_write(std::exchange(blocks_, {}));
  }

 private:
  std::vector<std::uint64_t> blocks_;
};

std::vector<std::uint64_t> written_blocks(const OpRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<std::uint64_t> blocks;
  for (const auto* const list : {&rule.written, &rule.scratch})
    for (const std::uint32_t argument : *list)
      for_each_block(arguments[argument], [&](const pager::Block& block) {
        if (block.is_versioned.load(std::memory_order_relaxed) &&
            std::ranges::find(blocks, block.number) == blocks.end())
          blocks.push_back(block.number);
      });
  return blocks;
}

/// Fills in what the input is, as the call finds it. Returns false if it cannot be known at a replay.
bool describe(const c10::Storage& storage, Call::Input& input, std::uint32_t& depth) {
  pager::Block* const block = block_of(storage);
  if (block == nullptr) {
    if (storage.nbytes() >= base::kMinPagedBytes.count()) return false;  // foreign: anybody may write it
    input.copy = copy_of(storage);
    return true;
  }
  std::tie(input.contents, input.made_by) = g_replayer->recipes().contents_of(*block);
  input.storage = storage.getWeakStorageImpl();
  input.bytes = storage.nbytes();
  if (!input.needs_contents()) input.made_by = {};
  if (input.made_by) depth = std::max(depth, input.made_by.call->depth + 1);
  return true;
}

/// Before the call runs. Returns null if it cannot be made again.
std::shared_ptr<Call> capture(const c10::OperatorHandle& op, const OpRule& rule, c10::ArrayRef<c10::IValue> arguments,
                              base::Device device) {
  std::vector<c10::Storage> memory;
  memory.reserve(rule.tensors);
  const auto other = stand_in_for(op, arguments, device);
  auto captured = other ? CapturedOp::capture(other->op, op_rule(other->op), other->arguments, device, memory)
                        : CapturedOp::capture(op, rule, arguments, device, memory);
  // What is made of nothing is often filled by code outside of ops, unannounced.
  if (!captured || memory.empty()) return nullptr;
  auto call = std::make_shared<Call>(std::move(*captured));
  call->rule = &rule;
  call->row = pager::t_state.replayed_later;
  call->copied_in = intercept::g_target.pager->ordering().queue_here();
  call->inputs.resize(memory.size());
  const std::vector<Use> uses = uses_of(rule, rule.fills_in(arguments), call->op, memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    call->inputs[i].use = uses[i];
    if (!describe(memory[i], call->inputs[i], call->depth)) return nullptr;
  }
  return call;
}

/// If the copies of small arguments do not fit, the op itself still may.
std::shared_ptr<Call> capture_if_it_fits(const c10::OperatorHandle& op, const OpRule& rule,
                                         c10::ArrayRef<c10::IValue> arguments, base::Device device) {
  try {
    return capture(op, rule, arguments, device);
  } catch (const c10::OutOfMemoryError&) {
    return nullptr;
  }
}

/// After the call ran.
void add_outputs(Call& call, c10::ArrayRef<c10::IValue> results) {
  Recipes& recipes = g_replayer->recipes();
  call.outputs.reserve(call.rule->written.size() + call.rule->returns);
  const auto add = [&](const Contents& contents, WeakStorage storage, std::uint32_t result, std::uint32_t input) {
    call.outputs.push_back({.contents = contents, .storage = std::move(storage), .result = result, .input = input});
  };
  for (std::uint32_t i = 0; i < call.inputs.size(); ++i) {
    const Call::Input& input = call.inputs[i];
    if ((input.use == Use::kWritten || input.use == Use::kFilled) && !input.copy)
      add(recipes.contents_of(input.contents.block), input.storage, Call::Output::kWritten, i);
  }
  const auto is_known = [&](std::uint64_t block) {
    return std::ranges::any_of(call.inputs, [&](const auto& input) { return input.contents.block == block; }) ||
           std::ranges::any_of(call.outputs, [&](const auto& output) { return output.contents.block == block; });
  };
  std::uint32_t result = 0;
  for (const c10::IValue& value : results)
    intercept::for_each_tensor(value, [&](const at::TensorBase& tensor) {
      if (tensor.defined() && is_plain(at::Tensor(tensor)))
        for_each_block(at::Tensor(tensor), [&](pager::Block& block) {
          if (is_known(block.number)) return;
          const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
          add(recipes.contents_of(block).first, storage.getWeakStorageImpl(), result, 0);
        });
      ++result;
    });
}

/// Runs the kernel of a call, and captures it if that is wanted. `after`: the keys that are left.
void run_captured(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack) {
  const OpRule& rule = op_rule(op);
  const Drawing drawing(rule.is_random);
  if (InLeaf::is_set()) return op.redispatchBoxed(after, stack);
  g_replayer->recipes().let_go();
  if (is_outermost()) t_is_left_out = false;
  const base::Device device = g_device.load(std::memory_order_relaxed);
  const bool is_a_leaf = is_leaf(rule, after, device);
  std::shared_ptr<Call> call;
  std::optional<Writing> writing;
  {
    const auto arguments = torch::jit::last(*stack, rule.arguments);
    const bool is_wanted =
        pager::t_state.replayed_later != 0 || (g_captures_all.load(std::memory_order_relaxed) && !t_is_left_out);
    if (is_wanted && is_a_leaf && rule.allows(arguments, device) && !at::in_parallel_region())
      call = capture_if_it_fits(op, rule, arguments, device);
    writing.emplace(written_blocks(rule, arguments));
  }
  {
    std::optional<InLeaf> leaf;
    if (is_a_leaf) leaf.emplace();
    op.redispatchBoxed(after, stack);
  }
  if (!drawing.is_alone()) call.reset();
  writing->end();
  const auto results = torch::jit::last(*stack, rule.returns);
  if (call) {
    add_outputs(*call, results);
    g_replayer->recipes().add(call);
    if (pager::t_state.replayed_later != 0) g_replayer->note_captured(call);
  } else if (!rule.is_torchs) {
    // Its kernel may have filled by itself what ops inside it made.
    for (const c10::IValue& result : results)
      for_each_block(result, [](pager::Block& block) { g_replayer->recipes().expose(block); });
  }
}

/// Calls that are not captured need only have their writes announced, but for ops whose schema does not say what they
/// write, or whose kernels are not torch's, and for draws, which captured draws must know of.
bool wants(const c10::OperatorHandle& op) {
  if (pager::t_state.replayed_later != 0) return true;
  const OpRule& rule = op_rule(op);
  return !rule.is_torchs || !rule.scratch.empty() || rule.is_random;
}

bool wants_most(const c10::OperatorHandle& op) {
  constexpr std::uint32_t kLeftOutOf = 4;
  static thread_local std::minstd_rand t_random;
  if (is_outermost()) t_is_left_out = t_random() % kLeftOutOf == 0;
  return !t_is_left_out || wants(op);
}

void before_write(pager::Block& block) { const Writing writing({block.number}); }

}  // namespace

void start_capturing(Replayer& replayer, Captures captures, base::Device device) {
  g_replayer = &replayer;
  g_device = device;
  g_captures_all = captures == Captures::kAll;
  replayer.recipes().clear();
}

intercept::KernelRunner capturing_runner(Captures captures) {
  return {
      .run = &run_captured, .wants = captures == Captures::kAll ? &wants_most : &wants, .before_write = &before_write};
}

}  // namespace tensorpager::replay
