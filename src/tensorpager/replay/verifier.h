// Checks the rules of op_rules.h while a program runs: each leaf call that they allow is run as ever, then replayed
// twice on copies of what its arguments were, into memory filled with two different bytes, and all results are
// compared. A wrong rule, a write that no schema announces, a draw, and a kernel that depends on anything else show as
// a difference. The program itself is not changed: replays write to copies only, and draws are undone.
//
// An op that differed is not replayed again in this process.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/replay/op_rules.h"

namespace tensorpager::replay {

/// From now on these ops are verified whatever the rules say, and no longer those of an earlier call: names separated
/// by commas, for tests of the verifier. Throws InvalidArgument if there is no such op.
void trust(std::string_view ops);

/// Counts from zero.
void forget_counts();

/// Begins to count. The session's allocator must be torch's by now.
void start_verifying(const arena::AddressSpace& space);
/// The session's allocator is torch's again.
void stop_verifying();

/// Runs the kernel of a call and verifies it. `after`: the keys that are left. For intercept::see_calls.
void run_verified(const c10::OperatorHandle& op, c10::DispatchKeySet after, torch::jit::Stack* stack);

/// A replay of an op gave something else: it is not replayed again, and people are told once.
void report_difference(const OpRule& rule, const std::string& reason);

struct VerifierCounts {
  std::uint64_t replayed_calls = 0;      // each of them twice
  std::uint64_t replay_differences = 0;  // of these, calls that a replay did not repeat
  std::vector<std::string> different_ops;
};
/// Since verifying began; `different_ops` since the process began.
VerifierCounts verifier_counts();

/// `never: draws from a generator`: the rule of an op by its name with the overload, `aten::add.Tensor`. Throws
/// InvalidArgument if there is no such op.
std::string describe_rule(std::string_view name);

}  // namespace tensorpager::replay
