#include "tensorpager/intercept/list_ops.h"

#include <algorithm>
#include <bit>

#include "tensorpager/intercept/boxed_call.h"
#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/op_protocol.h"

namespace tensorpager::intercept {
namespace {

using base::Bytes;

/// A call below this share of the budget is left whole: parts cost a call each.
constexpr std::uint64_t kWholeShare = 4;
/// What one part may need. Small, so that paging can go on around it; a single item is the least.
constexpr std::uint64_t kPartShare = 16;

/// What the shares are of: a power of two, so that a step has the same parts, and its plan can be followed, under
/// budgets that differ a little, or while a few workspaces more are taken from one.
std::uint64_t rounded(Bytes budget) { return std::bit_floor(budget.count()); }

constexpr std::string_view kPrefixes[] = {"aten::_fused_adam", "aten::_fused_adagrad", "aten::_fused_sgd",
                                          "aten::_amp_foreach_", "aten::_foreach_"};

/// Items [begin, end) of a list argument, of tensors or of numbers; an empty list (no max_exp_avg_sqs) stays empty.
c10::IValue part_of(const c10::IValue& list, std::size_t begin, std::size_t end) {
  const c10::impl::GenericList whole = list.toList();
  c10::impl::GenericList part(whole.elementType());
  for (std::size_t i = begin; i < std::min(end, whole.size()); ++i) part.push_back(whole.get(i));
  return part;
}

/// Appends the list that one part of a call has returned.
void take_results(torch::jit::Stack& stack, c10::List<at::Tensor>& results) {
  for (const at::Tensor& result : stack.back().toTensorVector()) results.push_back(result);
}

/// Bytes charged for what is paged of the tensor, or would be if memory was paged and not only recorded.
Bytes charged_for(const at::TensorBase& tensor) {
  Bytes sum;
  if (g_target.device == nullptr) {
    g_target.finder().in_tensor(tensor, [&](const pager::Block& block) { sum += block.charged; });
  } else if (const auto found = find_of_device(tensor); found && found->size >= base::kMinPagedBytes) {
    sum = found->charged;
  }
  return sum;
}

/// Bytes that item i of all lists needs, for each i; empty if the lists do not match.
std::vector<Bytes> item_bytes(c10::ArrayRef<c10::IValue> arguments) {
  std::vector<Bytes> bytes;
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensorList()) continue;
    const auto list = argument.toTensorVector();
    if (list.empty()) continue;
    if (bytes.empty()) bytes.resize(list.size());
    if (bytes.size() != list.size()) return {};
    for (std::size_t i = 0; i < list.size(); ++i) bytes[i] += charged_for(list[i]);
  }
  return bytes;
}

}  // namespace

bool is_list_op(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  const bool returns_list = returns.size() == 1 && *returns.front().type() == *c10::ListType::ofTensors();
  return (returns.empty() || returns_list) &&
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return schema.name().rfind(prefix, 0) == 0; });
}

bool run_in_parts(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                  torch::jit::Stack& stack) {
  if (!g_target.parts_for && g_target.pager->budget() == base::kUnlimited) return false;
  const Bytes budget = g_target.parts_for.value_or(g_target.pager->budget_of_ops());
  const std::size_t first = stack.size() - info.arguments;
  // Kept here, not on the stack: a part that throws must leave no half of the arguments there.
  const std::vector<c10::IValue> arguments(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
  const std::vector<Bytes> bytes = item_bytes(arguments);
  Bytes total;
  for (const Bytes item : bytes) total += item;
  if (bytes.size() < 2 || total.count() <= rounded(budget) / kWholeShare) return false;

  const Bytes largest = *std::max_element(bytes.begin(), bytes.end());
  while (const auto shortage = g_target.pager->admission().shortage_for(largest))
    if (largest > budget || !wait_for_a_collective())
      throw_out_of_memory(describe_call(info.name.c_str(), c10::ArrayRef<c10::IValue>(arguments)), shortage->what());

  torch::jit::drop(stack, info.arguments);
  c10::List<at::Tensor> results;
  for (std::size_t begin = 0, end = 0; begin < bytes.size(); begin = end) {
    Bytes part = bytes[end++];
    // Items that are too small to be paged need nothing.
    const Bytes most = std::max(part, Bytes(rounded(budget) / kPartShare));
    while (end < bytes.size() && part + bytes[end] <= most) part += bytes[end++];
    torch::jit::Stack part_stack;
    for (const c10::IValue& argument : arguments)
      part_stack.push_back(argument.isList() ? part_of(argument, begin, end) : argument);
    if (g_target.calls == Calls::kSeen)
      run_op(BoxedCall(op, info, keys, part_stack, arguments));
    else
      run_op(HandedOnCall(op, info, keys, part_stack, arguments));
    if (info.returns > 0) take_results(part_stack, results);
  }
  if (info.returns > 0) stack.emplace_back(std::move(results));
  return true;
}

}  // namespace tensorpager::intercept
