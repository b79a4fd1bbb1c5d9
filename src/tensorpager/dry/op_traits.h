// What the skipper knows of an operator from its registration, worked out at the first call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tensorpager::dry {

/// Formulas of arithmetic, for a crude estimate of a kernel's time.
enum class Work : std::uint8_t { kBytes, kMatrices, kConvolution, kAttention, kRecurrent, kFactorization };

struct OpTraits {
  struct Argument {
    std::uint32_t index;
    bool written;
    bool is_out;  // resized by the kernel
  };
  static constexpr std::int32_t kNew = -1;

  const c10::FunctionSchema* schema = nullptr;
  std::string name;  // aten::add.Tensor
  std::vector<Argument> tensor_arguments;
  std::vector<std::uint8_t> has_value_in_signature;  // by argument; see Signature
  std::vector<std::int32_t> returned;                // by result: the argument that it is, or kNew
  std::uint32_t arguments = 0;
  std::uint32_t returns = 0;
  bool through_on_cpu = false;  // a view, or made of other ops: never skipped
  bool through_on_cuda = false;
  bool in_place = false;           // each result is an argument that it writes, and none is resized
  bool draws = false;              // from a generator, and does little else
  bool depends_on_values = false;  // its result's sizes do
  bool answers = false;            // returns no tensor, but a number or bool that depends on values
  Work work = Work::kBytes;

  mutable std::atomic<std::uint64_t> skipped{0};
  mutable std::atomic<std::uint64_t> large_runs{0};  // on large tensors, but could not be skipped
};

/// Found without a lock after the first call of an op.
const OpTraits& traits_of(const c10::OperatorHandle& op);

/// Calls `visit(const OpTraits&)` for each op met so far.
void for_each_op(const std::function<void(const OpTraits&)>& visit);

}  // namespace tensorpager::dry
