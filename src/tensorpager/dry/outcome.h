// The results of a skipped call, except values: which of them are new, of what sizes and strides, over how many bytes,
// and which are arguments or share storage. Worked out once for a signature.
#pragma once

#include <c10/util/DimVector.h>

#include <memory>
#include <vector>

#include "tensorpager/dry/signature.h"

namespace tensorpager::dry {

struct ResultTensor {
  enum class Origin : std::uint8_t {
    kUndefined,
    kNew,
    kArgument,      // the tensor argument `of` itself
    kArgumentView,  // another tensor on its storage
    kResultView,    // on the storage of result `of`
  };
  Origin origin = Origin::kUndefined;
  std::uint32_t of = 0;  // among the tensor arguments, or results, counted through lists
  at::ScalarType type = at::kFloat;
  c10::DimVector sizes, strides;
  std::int64_t offset = 0;  // of a kArgumentView, beyond the argument's own
  std::size_t storage_bytes = 0;
  bool fills_storage = true;  // its sizes and strides alone tell how many bytes it has
};

struct Return {
  enum class Kind : std::uint8_t { kTensor, kTensors, kPlain };
  Kind kind = Kind::kTensor;
  std::uint32_t count = 1;  // of tensors
  c10::IValue plain;        // neither tensor nor list of tensors
};

struct Outcome {
  explicit Outcome(const Signature& of) : signature(of) {}

  Signature signature;
  bool runs = false;  // cannot be described, or has no large floating tensor: the op is run
  std::vector<Return> returns;
  std::vector<ResultTensor> tensors;
  std::vector<std::uint32_t> made_in_order;  // places of new ones among `tensors`, as the kernel makes them
  std::size_t temporary_bytes = 0;           // the most that the kernel's own storages took at one time
};

/// The tensors of a call's arguments in order, undefined ones included.
std::vector<at::Tensor> tensor_arguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments);

/// Describes the results that a call gave for these tensor arguments, real or meta. Returns false if they are not all
/// ordinary strided tensors.
bool describe(const std::vector<at::Tensor>& arguments, c10::ArrayRef<c10::IValue> results, Outcome& outcome);

/// Results as described; out arguments are resized. Values: see stand_ins.h.
std::vector<c10::IValue> make_results(const Outcome& outcome, const Call& call);

/// The entry for a signature; null if there is none yet. Found without a lock.
const Outcome* find_outcome(const Signature& signature);
/// Keeps it for ever, or, if too many signatures are known, until this thread's next call.
const Outcome& keep_outcome(std::unique_ptr<const Outcome> outcome);
std::uint64_t outcomes_kept();

}  // namespace tensorpager::dry
