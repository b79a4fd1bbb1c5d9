#include "tensorpager/replay/verifier.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tensorpager/base/errors.h"
#include "tensorpager/replay/in_leaf.h"
#include "tensorpager/replay/leaf.h"
#include "tensorpager/replay/op_rules.h"
#include "tensorpager/replay/scratch_allocator.h"
#include "tensorpager/replay/verification.h"

namespace tensorpager::replay {
namespace {

std::atomic<std::uint64_t> g_replayed_calls{0};
std::atomic<std::uint64_t> g_differences{0};
ScratchAllocator* g_allocator = nullptr;  // made by the first session that verifies; never freed

c10::OperatorHandle find_op(std::string_view name) {
  const std::size_t dot = name.find('.', name.find("::"));
  const c10::OperatorName wanted(std::string(name.substr(0, dot)),
                                 dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1)));
  const auto op = c10::Dispatcher::singleton().findSchema(wanted);
  if (!op) throw base::InvalidArgument("'" + std::string(name) + "' is no op");
  return *op;
}

const char* text_of(Purity purity) {
  switch (purity) {
    case Purity::kPure:
      return "pure";
    case Purity::kScratch:
      return "scratch";
    case Purity::kNoDraw:
      return "no-draw";
    case Purity::kDraws:
      return "draws";
    case Purity::kNever:
      break;
  }
  return "never";
}

}  // namespace

void report_difference(const OpRule& rule, const std::string& reason) {
  g_differences.fetch_add(1, std::memory_order_relaxed);
  if (rule.differed.exchange(true)) return;
  std::fprintf(stderr, "tensorpager: replay of %s: %s; it is not replayed again\n", rule.name.c_str(), reason.c_str());
}

void trust(std::string_view ops) {
  for_each_rule([](const OpRule& rule) { rule.is_trusted = false; });
  for (std::size_t begin = 0; begin < ops.size();) {
    const std::size_t end = std::min(ops.find(',', begin), ops.size());
    op_rule(find_op(ops.substr(begin, end - begin))).is_trusted = true;
    begin = end + 1;
  }
}

void forget_counts() {
  g_replayed_calls = 0;
  g_differences = 0;
}

void start_verifying(const arena::AddressSpace& space) {
  forget_counts();
  if (g_allocator == nullptr) g_allocator = new ScratchAllocator(space);
  g_allocator->install();
}

void stop_verifying() { g_allocator->uninstall(); }

void run_verified(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack) {
  const OpRule& rule = op_rule(op);
  if (InLeaf::is_set() || !is_leaf(rule, after, base::Device::kHost)) return op.redispatchBoxed(after, stack);
  const InLeaf leaf;
  const auto arguments = torch::jit::last(*stack, rule.arguments);
  // In a parallel region a kernel's work is cut otherwise, and the other threads' kernels cannot be replayed with it.
  if (!rule.allows(arguments, base::Device::kHost) || at::in_parallel_region()) return op.redispatchBoxed(after, stack);
  Verification verification(op, rule, arguments);
  op.redispatchBoxed(after, stack);
  if (!verification.is_possible()) return;
  g_replayed_calls.fetch_add(1, std::memory_order_relaxed);
  if (const auto reason = verification.difference(torch::jit::last(*stack, rule.returns)))
    report_difference(rule, *reason);
}

VerifierCounts verifier_counts() {
  VerifierCounts counts;
  counts.replayed_calls = g_replayed_calls;
  counts.replay_differences = g_differences;
  for_each_rule([&](const OpRule& rule) {
    if (rule.differed) counts.different_ops.push_back(rule.name);
  });
  std::ranges::sort(counts.different_ops);
  return counts;
}

std::string describe_rule(std::string_view name) {
  const OpRule& rule = op_rule(find_op(name));
  return std::string(text_of(rule.on_cpu.purity)) + ": " + rule.on_cpu.reason;
}

}  // namespace tensorpager::replay
