// All that the sizes, strides and kernel temporaries of a call's results depend on: the op, what its tensor arguments
// are like, and its integers. Numbers that an op computes with (Scalar and float: learning rates, thresholds) are left
// out, since they change from step to step and no shape depends on them.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

#include "tensorpager/dry/call.h"

namespace tensorpager::dry {

class Signature {
 public:
  explicit Signature(const Call& call);

  std::uint64_t hash() const { return hash_; }
  bool operator==(const Signature& other) const { return hash_ == other.hash_ && words_ == other.words_; }

 private:
  void add(const c10::IValue& value, bool with_value);
  void add(const at::Tensor& tensor);

  static constexpr unsigned kUsualWords = 128;  // on the stack: some ten tensors
  c10::SmallVector<std::uint64_t, kUsualWords> words_;
  std::uint64_t hash_ = 0;
};

}  // namespace tensorpager::dry
