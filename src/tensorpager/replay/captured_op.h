// One call of a leaf op, kept so that it can be made again: the operator, its arguments without any tensor, and what it
// depends on besides them. Tensors are kept as their metadata and the number of the storage that they lie in: views of
// one storage have one number. Nothing is kept alive.
//
// Who replays it says what each number stands for: the verifier gives copies of the bytes that were there before the
// op, a rebuild or a plan's replay the memory of blocks that hold what the op was given (recipe.h).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensorpager/replay/ambient.h"
#include "tensorpager/replay/generator_state.h"
#include "tensorpager/replay/op_rules.h"

namespace tensorpager::replay {

/// Whether a tensor is nothing but a strided view of bytes, on the CPU or a CUDA device. Not: sparse, quantized,
/// nested, named, of a subclass, of symbolic sizes, or without memory.
bool is_plain(const at::Tensor& tensor);

struct CapturedTensor {
  static constexpr std::uint32_t kUndefined = ~std::uint32_t{0};

  std::uint32_t storage = kUndefined;  // number
  bool is_wrapped_number = false;      // was a number in Python, which promotes otherwise
  std::int64_t offset = 0;             // in elements
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  caffe2::TypeMeta type;
  c10::DispatchKeySet keys;  // also device, conjugate and negative bit

  CapturedTensor() = default;  // undefined
  CapturedTensor(const at::Tensor& tensor, std::uint32_t number);
  /// The same tensor in this memory.
  at::Tensor over(const c10::Storage& memory) const;
};

class CapturedOp {
 public:
  /// A call whose kernel is the device's; tensors of the CPU may be among the arguments of any. `memory` gets the
  /// storage of each number. Returns nullopt if an argument is opaque: a tensor that is not plain, an object, another
  /// device. Of the generator that the op draws from the state is kept.
  static std::optional<CapturedOp> capture(const c10::OperatorHandle& op, const OpRule& rule,
                                           c10::ArrayRef<c10::IValue> arguments, base::Device device,
                                           std::vector<c10::Storage>& memory);

  /// Numbers of the storages that the tensors of an argument lie in.
  template <typename Visit>
  void for_each_storage(std::uint32_t argument, Visit&& visit) const {
    const Argument& one = arguments_[argument];
    for (std::uint32_t i = one.first; i < one.first + one.count; ++i)
      if (tensors_[i].storage != CapturedTensor::kUndefined) visit(tensors_[i].storage);
  }

  base::Device device() const { return device_; }
  /// Whether it can be replayed now: see Ambient.
  bool can_be_replayed() const { return ambient_.can_be_set(); }

  /// Runs the op below autograd on this memory, which it may write, and returns its results.
  torch::jit::Stack replay(c10::ArrayRef<c10::Storage> memory) const;

 private:
  enum class Kind : std::uint8_t { kPlain, kTensor, kTensors, kOptionalTensors, kGenerator };
  struct Argument {
    Kind kind = Kind::kPlain;
    std::uint32_t first = 0, count = 0;  // of tensors_
    c10::IValue plain;
  };

  CapturedOp(const c10::OperatorHandle& op, base::Device device) : op_(op), device_(device) {}
  bool add(const c10::IValue& value, std::vector<c10::Storage>& memory);
  bool add_generator(const c10::IValue& value);
  bool add_tensor(const at::Tensor& tensor, std::vector<c10::Storage>& memory);
  c10::IValue made(const Argument& argument, c10::ArrayRef<c10::Storage> memory) const;
  at::Tensor tensor(std::uint32_t index, c10::ArrayRef<c10::Storage> memory) const;

  c10::OperatorHandle op_;
  base::Device device_;
  Ambient ambient_ = Ambient::now(device_);
  std::vector<Argument> arguments_;
  std::vector<CapturedTensor> tensors_;
  std::shared_ptr<const GeneratorState> generator_;  // of kGenerator; 2.5 KB
};

}  // namespace tensorpager::replay
