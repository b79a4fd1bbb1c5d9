#include "tensorpager/dry/skipper.h"

#include <algorithm>
#include <sstream>

#include "tensorpager/dry/card.h"
#include "tensorpager/dry/draws.h"
#include "tensorpager/dry/key.h"
#include "tensorpager/dry/shapes.h"

namespace tensorpager::dry {
namespace {

constexpr std::int64_t kMostRandomOutOfStep = 65536;  // elements; done in a moment

/// Whether sizes of results depend on values of tensors. Torch tags some so that do only in some calls.
bool depends_on_values(const OpTraits& traits, bool masks) {
  if (traits.name == "aten::index.Tensor") return masks;
  if (traits.name == "aten::_ctc_loss") return false;  // its lengths are numbers
  return traits.depends_on_values || traits.name == "aten::_ctc_loss.Tensor";
}

at::Tensor unrecorded_ones(const at::Tensor& tensor) {
  const BackendGuard guard;
  return unrecorded_like(tensor).fill_(1);
}

void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

void Skipper::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const OpTraits& traits = traits_of(op);
  const Call call{.op = op, .traits = traits, .after = keys & kAfterKey, .stack = stack};
  // Python's own fake tensors, as torch.compile traces with, are not for us.
  if ((traits.through_on_cpu && traits.through_on_cuda) || call.after.has(c10::DispatchKey::Python)) {
    op.redispatchBoxed(call.after, stack);
    return;
  }
  const Look look = look_at(call);
  const bool through = look.cuda ? traits.through_on_cuda : traits.through_on_cpu;
  // Integers may be looked up in a small table and give a large floating result.
  const bool may_give_large = look.large_integers && !look.cuda && !traits.in_place;
  if (through || look.unusual || !(look.large || may_give_large))
    op.redispatchBoxed(call.after, stack);
  else if (look.cuda)
    skip_on_card(call, look);
  else
    skip_on_cpu(call, look);
}

Skipper::Look Skipper::look_at(const Call& call) const {
  Look look;
  call.for_each_tensor_argument([&](const at::Tensor& tensor, const OpTraits::Argument&) {
    if (!is_ordinary(tensor)) {
      look.unusual = true;
      return;
    }
    const std::int64_t elements = tensor.numel();
    const std::size_t bytes = static_cast<std::size_t>(elements) * tensor.itemsize();
    const bool is_large = bytes >= options_.least_bytes;
    const bool floating = is_floating(tensor);
    look.cuda |= tensor.is_cuda();
    look.large |= is_large && floating;
    look.large |= tensor.scalar_type() == at::kBool && bytes >= options_.least_constant_bools;
    look.large_integers |= is_large && !floating;
    look.masks |= tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
    look.bytes += bytes;
    look.most_elements = std::max(look.most_elements, elements);
  });
  for (const c10::IValue& value : call.arguments()) look.unusual |= value.isDevice() && !value.toDevice().is_cpu();
  return look;
}

void Skipper::skip_on_cpu(const Call& call, const Look& look) {
  const OpTraits& traits = call.traits;
  if (traits.draws && look.large) {
    if (may_draw(look)) return draw(call);
    count(not_drawn_);
  }
  if (depends_on_values(traits, look.masks)) return run(call, look);
  if (traits.answers) {
    torch::jit::Stack results =
        look.large ? results_for_ones(call, call.arguments(), options_.least_bytes) : torch::jit::Stack();
    if (results.empty()) return run(call, look);
    count(traits.skipped);
    return call.finish(std::move(results));
  }
  const Signature signature(call);
  const Outcome* outcome = find_outcome(signature);
  if (outcome == nullptr) outcome = learn(call, look, signature);
  if (outcome == nullptr) return;
  if (outcome->runs) return run(call, look);
  count(traits.skipped);
  replay_temporaries(*outcome);
  if (traits.in_place) {
    stand_ins_.fill_written(call);
    return give_back_written(call);
  }
  std::vector<c10::IValue> results = make_results(*outcome, call);
  stand_ins_.fill(call, *outcome, results);
  call.finish(std::move(results));
}

const Outcome* Skipper::learn(const Call& call, const Look& look, const Signature& signature) {
  auto outcome = std::make_unique<Outcome>(signature);
  const std::vector<c10::IValue> arguments(call.arguments().begin(), call.arguments().end());
  if (look.large && first_runs_.run(call, look.bytes, *outcome)) {
    if (!outcome->runs) {
      torch::jit::Stack with_arguments = arguments;
      const Call before{.op = call.op, .traits = call.traits, .after = call.after, .stack = &with_arguments};
      stand_ins_.refill(before, *outcome, torch::jit::last(*call.stack, call.traits.returns));
    }
    keep_outcome(std::move(outcome));
    return nullptr;
  }
  if (!call.traits.in_place)
    outcome->runs = !describe_by_shapes(call, *outcome) || !(look.large || has_large_result(*outcome));
  return &keep_outcome(std::move(outcome));
}

bool Skipper::has_large_result(const Outcome& outcome) const {
  return std::ranges::any_of(outcome.tensors, [&](const ResultTensor& result) {
    return (c10::isFloatingType(result.type) || c10::isComplexType(result.type)) &&
           result.storage_bytes >= options_.least_bytes;
  });
}

void Skipper::give_back_written(const Call& call) {
  const auto arguments = call.arguments();
  std::vector<c10::IValue> results;
  results.reserve(call.traits.returns);
  for (const std::int32_t argument : call.traits.returned)
    results.push_back(arguments[static_cast<std::size_t>(argument)]);
  call.finish(std::move(results));
}

/// Once a draw was left out the generator is not where a real run's is, and to move it on is of no more use.
bool Skipper::may_draw(const Look& look) const {
  const bool in_step = not_drawn_.load(std::memory_order_relaxed) == 0;
  return look.most_elements <= (in_step ? options_.most_random : kMostRandomOutOfStep);
}

/// Draws for real, so that the generator moves. What is computed with, as probabilities, is 1.
void Skipper::draw(const Call& call) {
  count(drawn_);
  if (draw_aside(call)) return;
  const std::size_t first = call.stack->size() - call.traits.arguments;
  for (const OpTraits::Argument& argument : call.traits.tensor_arguments) {
    c10::IValue& value = (*call.stack)[first + argument.index];
    if (argument.written || !value.isTensor()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && is_floating(tensor) && bytes_of(tensor) >= options_.least_bytes)
      value = unrecorded_ones(tensor);
  }
  const UnskippedGuard guard;
  call.op.redispatchBoxed(call.after, call.stack);
}

void Skipper::run(const Call& call, const Look& look) {
  if (look.large) count(call.traits.large_runs);
  const UnskippedGuard guard;
  call.op.redispatchBoxed(call.after, call.stack);
}

/// On the emulated card the kernel is dropped instead of queued. Shapes, allocations, copies' waits and the generator
/// are those of a run with kernels, since the same code does them.
void Skipper::skip_on_card(const Call& call, const Look& look) {
  if (depends_on_values(call.traits, look.masks) || call.traits.answers) return run(call, look);
  count(call.traits.skipped);
  const torch::jit::Stack arguments(call.arguments().begin(), call.arguments().end());
  {
    const UnskippedGuard guard;
    const DroppedKernels dropped(call.traits.name);
    call.op.redispatchBoxed(call.after, call.stack);
  }
  stand_ins_.fill_on_card(call, arguments, torch::jit::last(*call.stack, call.traits.returns));
}

std::string Skipper::report() const {
  std::uint64_t skipped = 0;
  std::ostringstream runs;
  for_each_op([&](const OpTraits& traits) {
    skipped += traits.skipped.load(std::memory_order_relaxed);
    if (const std::uint64_t times = traits.large_runs.load(std::memory_order_relaxed))
      runs << (runs.tellp() == 0 ? "" : ", ") << traits.name << " (" << times << ")";
  });
  std::ostringstream text;
  text << "dry: " << skipped << " ops skipped, " << shapes_asked() << " shapes asked for, " << first_runs_.count()
       << " kernels run to see what they allocate, " << drawn_.load() << " large random draws made";
  if (const auto left = not_drawn_.load())
    text << "; " << left << " were skipped, the first of more than " << options_.most_random
         << " elements: later draws differ from the real run's";
  if (runs.tellp() != 0) text << "; run though large, since their shapes are not known without: " << runs.str();
  return text.str();
}

}  // namespace tensorpager::dry
