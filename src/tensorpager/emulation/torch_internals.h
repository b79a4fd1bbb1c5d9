// Everything that the emulation assumes of one version of torch: private keys, and ops that need special treatment, by
// name. To support another version, read this file and torch_internals.cpp against it first.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <string_view>

namespace tensorpager::emulation {

/// A backend that no tensor has: called on it, an op runs what torch has for every backend. That is the generic kernel
/// of a structured op (it checks, makes the outputs and calls the `out=` op) and the host code of `copy_`.
inline constexpr c10::DispatchKey kAnyBackend = c10::DispatchKey::PrivateUse2;

/// Ops run as plain ops of their backend while this lives: no autograd, no autocast, no transforms, no Python modes,
/// not seen by Tensorpager's own keys nor by profilers. The same on every thread, whatever it did before.
class BackendOnly {
 public:
  BackendOnly();

 private:
  at::NoGradGuard no_grad_;
  at::DisableRecordFunctionGuard no_records_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

/// `add` of `add.out` and of `add_`.
std::string_view family_of(std::string_view name);

/// An op's name as in `add.out`, without the namespace. What CUDA does for it is host code that launches nothing, and
/// is left as it is.
bool is_host_code(const std::string& name);
/// The op's kernel for CUDA is made of calls that are no ops, so it is emulated though CUDA has no kernel of its own.
bool is_emulated_whole(const std::string& name);
/// torch's shape function for the op is wrong or returns less than the kernel: its outputs are known when it ran.
bool has_wrong_shapes(const std::string& name);
/// The op's first argument is added to a product by cuBLASLt if it is a bias, with one dimension.
bool may_add_bias(const std::string& name);
/// The op accepts tensors of different devices.
bool mixes_devices(const std::string& name);

}  // namespace tensorpager::emulation
