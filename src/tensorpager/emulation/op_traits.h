// What an op's schema says of how it can run late, worked out once for each op.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensorpager/roofline/op_work.h"

namespace tensorpager::emulation {

/// How an op's results come about.
enum class Course : std::uint8_t {
  kGeneric,    // torch's generic kernel checks, makes the outputs and calls the op's `out=` form
  kLate,       // outputs by a shape function, then the kernel is queued
  kWhenItRan,  // shapes or plain values come from the data: the kernel is queued and waited for
};

struct OpTraits {
  static constexpr int kNone = -1;

  std::string name = {};    // with the namespace; lives for ever
  std::string family = {};  // `add` of `aten::add.out` and `aten::add_`
  Course course = Course::kLate;
  std::string reason = {};   // of kWhenItRan
  bool takes_out = false;    // an argument is `out=`: it is resized if its sizes are wrong
  bool returns_new = false;  // at least one result is a new tensor
  bool is_checked = false;   // though nothing is new, the shape function says at once whether the arguments are right
  bool uses_cublas = false;
  bool may_add_bias = false;  // cuBLASLt does, if its first argument is one
  roofline::Arithmetic arithmetic = roofline::Arithmetic::kNone;
  bool mixes_devices = false;
  bool takes_lists = false;         // of tensors, which may be on several devices
  int generator = kNone;            // argument
  std::vector<bool> writes = {};    // by argument
  std::vector<bool> is_out = {};    // by argument
  std::vector<int> result_is = {};  // by result: the argument that it is; kNone: a new tensor
};

/// Lives for ever. Thread-safe.
const OpTraits& traits_of(const c10::OperatorHandle& op);

/// Whether the op returns a view of an argument and writes none: it has no kernel to run.
bool is_view(const c10::FunctionSchema& schema);

}  // namespace tensorpager::emulation
