// Ops that only CUDA has kernels for, as CPU ops: one registration function a file. To add an op: its function in the
// file of its kind and a line in that file's register function.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace tensorpager::emulation {

/// Registers kernels on the key CUDA of aten, and keeps their names, by which the general late kernel leaves them
/// alone.
class OwnOps {
 public:
  explicit OwnOps(torch::Library& aten) : aten_(aten) {}

  /// `name` as in `native_dropout` or `mm.dtype`. The kernel runs with the device of its first tensor as the current
  /// one.
  template <typename Result, typename... Arguments>
  void add(const char* name, Result (*kernel)(Arguments...)) {
    aten_.impl(name, [kernel](Arguments... arguments) -> Result {
      std::optional<c10::Device> device;
      (find_device(device, arguments), ...);
      const c10::OptionalDeviceGuard guard(device);
      return kernel(std::forward<Arguments>(arguments)...);
    });
    names_.insert(name);
  }
  template <typename Lambda>
  void add(const char* name, Lambda kernel) {
    add(name, +kernel);
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  template <typename Argument>
  static void find_device(std::optional<c10::Device>& device, const Argument& argument) {
    if constexpr (std::is_same_v<Argument, at::Tensor>) {
      if (!device && argument.defined() && argument.is_cuda()) device = argument.device();
    }
  }

  torch::Library& aten_;
  std::set<std::string> names_;
};

void register_dropout(OwnOps& ops);
void register_normalization(OwnOps& ops);
void register_attention(OwnOps& ops);
void register_recurrent(OwnOps& ops);
void register_convolution(OwnOps& ops);
void register_sampling(OwnOps& ops);
void register_losses(OwnOps& ops);

}  // namespace tensorpager::emulation
