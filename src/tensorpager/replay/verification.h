// One call under verification: what was there before it ran, and whether replays give what it gave.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/replay/captured_op.h"
#include "tensorpager/replay/op_rules.h"
#include "tensorpager/replay/use.h"

namespace tensorpager::replay {

class Verification {
 public:
  /// Copies what the arguments hold, before the op runs.
  Verification(const c10::OperatorHandle& op, const OpRule& rule, c10::ArrayRef<c10::IValue> arguments);

  /// Whether anything can be compared: no argument is opaque.
  bool is_possible() const { return captured_.has_value(); }

  /// Replays the op, which gave `results`. Returns what differs, for people; nullopt if nothing does.
  std::optional<std::string> difference(c10::ArrayRef<c10::IValue> results);

 private:
  /// The memory of an argument. One that is read is copied once, for both replays.
  struct Memory {
    c10::Storage living;
    Use use = Use::kRead;
    std::array<c10::Storage, 2> copies;
  };
  struct Replayed {
    std::vector<c10::Storage> memory;  // by number
    torch::jit::Stack results;
  };

  std::optional<std::string> unannounced_write() const;
  Replayed replay(std::size_t which, std::byte fill) const;
  std::optional<std::string> compare_results(c10::ArrayRef<c10::IValue> results, const Replayed& first,
                                             const Replayed& second) const;
  std::optional<std::string> compare_tensors(bool may_be_alias, const at::Tensor& result, const Replayed& first,
                                             const at::Tensor& of_first, const Replayed& second,
                                             const at::Tensor& of_second) const;
  std::optional<std::string> compare_written() const;
  std::optional<std::size_t> number_of(const at::Tensor& result) const;

  const OpRule& rule_;
  std::vector<Memory> memory_;  // by number of the captured op
  std::optional<CapturedOp> captured_;
};

}  // namespace tensorpager::replay
