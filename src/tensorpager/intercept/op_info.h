// What we keep of each operator, worked out from its schema once: which arguments can hold tensors, which of them it
// writes, and whether Python implements it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/pager/block.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/roofline/op_work.h"

namespace tensorpager::intercept {

struct OpInfo {
  struct Argument {
    std::uint32_t index;
    pager::Access access;
  };
  const c10::FunctionSchema* schema = nullptr;
  std::optional<c10::OperatorHandle> op;  // none of compiled kernels
  std::string name;                       // aten::add.Tensor
  std::uint64_t name_hash = 0;
  std::vector<Argument> tensor_arguments;
  std::uint32_t arguments = 0;
  std::uint32_t returns = 0;
  bool returns_tensors = false;
  bool random = false;               // draws from a generator
  bool list = false;                 // works on lists of tensors: foreach, fused
  bool reads_what_it_writes = true;  // false: what it writes is overwritten: copy_, fill_, out=
  roofline::Arithmetic arithmetic = roofline::Arithmetic::kNone;
  bool multiplies = false;                                     // matrices, by a library that has a workspace
  bool hides_shortages = false;                                // if it is out of memory, it may do otherwise
  bool list_op = false;                                        // may be run in parts (R6)
  bool collective = false;                                     // continues after the op returned (R4)
  pager::Temporaries temporaries = pager::Temporaries::kKeep;  // kLetGo: Python implements it
  mutable pager::WorkingRoom room;
};

/// Whether the op writes the argument, as its schema says. aten::record_stream says so, too, and writes no byte.
bool is_written_announced(const c10::FunctionSchema& schema, const c10::Argument& argument);
/// Whether the op writes the argument though its schema does not say so.
bool is_written_unannounced(const c10::FunctionSchema& schema, const c10::Argument& argument);

/// Found without a lock after the first call of an op.
const OpInfo& op_info(const c10::OperatorHandle& op);

}  // namespace tensorpager::intercept
