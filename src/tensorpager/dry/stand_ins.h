// Values of results that no kernel computed: 1 in small floating results, what memory holds in large ones, 0 in integer
// results, and in bool results what the op gives for tensors of ones.
#pragma once

#include "tensorpager/dry/dry.h"
#include "tensorpager/dry/outcome.h"

namespace tensorpager::dry {

class StandIns {
 public:
  explicit StandIns(const Options& options) : options_(options) {}

  /// Fills new results on the CPU, and out arguments; `call` still holds the arguments.
  void fill(const Call& call, const Outcome& outcome, c10::ArrayRef<c10::IValue> results) const;
  /// The same if a kernel has computed something from stand-ins: as if it had not, and no value is infinite.
  void refill(const Call& call, const Outcome& outcome, c10::ArrayRef<c10::IValue> results) const;
  /// Fills integers and bools that a skipped op should have written. Floating tensors keep what they hold.
  void fill_written(const Call& call) const;
  /// Fills new results on the card, by kernels there, and what a copy to the host should have written.
  void fill_on_card(const Call& call, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> results) const;

 private:
  enum class Large : std::uint8_t { kLeave, kFill };
  template <typename Visit>
  static void for_each_result(c10::ArrayRef<c10::IValue> results, Visit&& visit);
  void fill_storage(const at::Tensor& tensor, bool truth, Large large) const;
  void fill_tensor(const at::Tensor& tensor, bool truth, Large large) const;

  const Options& options_;
};

/// What the op answers for ones: each large floating argument is a single 1 of the same dimension, each other tensor
/// its first element. Empty if the op refuses that.
torch::jit::Stack results_for_ones(const Call& call, c10::ArrayRef<c10::IValue> arguments, std::size_t least_bytes);

}  // namespace tensorpager::dry
