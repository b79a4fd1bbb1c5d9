// Puts the late kernels in the place of CUDA's.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/late_ops.h"
#include "tensorpager/emulation/op_traits.h"
#include "tensorpager/emulation/torch_internals.h"
#include "tensorpager/emulation/waited_ops.h"

namespace tensorpager::emulation {
namespace {

using torch::CppFunction;

/// While it lives, mutes torch's warnings of kernels that replace others, as these are meant to.
class NoWarnings {
  struct Mute final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Mute mute_;
  c10::WarningUtils::WarningHandlerGuard guard_{&mute_};
};

class Installation {
 public:
  int install();
  std::string unmapped();

 private:
  torch::Library& library_of(const std::string& name_space);
  void install_own();
  void install(const c10::OperatorName& name);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<torch::Library>> libraries_;
  std::set<std::string> seen_;  // ops with their namespace
  std::set<std::string> unmapped_;
  int replaced_ = 0;
};

torch::Library& Installation::library_of(const std::string& name_space) {
  auto& library = libraries_[name_space];
  if (!library) {
    library =
        std::make_unique<torch::Library>(torch::Library::IMPL, name_space, c10::DispatchKey::CUDA, __FILE__, __LINE__);
  }
  return *library;
}

bool never_cudnn(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, std::int64_t) { return false; }
bool never_cudnn_of(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t) {
  return false;
}

/// So that an encoder's fast path in evaluation stays with padded tensors: nested ones have CUDA kernels of their own.
bool never_nested(const at::Tensor&, const at::Tensor&) { return false; }

void Installation::install_own() {
  OwnOps own(library_of("aten"));
  own.add("_use_cudnn_ctc_loss", never_cudnn);
  own.add("_use_cudnn_ctc_loss.Tensor", never_cudnn_of);
  own.add("_nested_tensor_from_mask_left_aligned", never_nested);
  register_dropout(own);
  register_normalization(own);
  register_attention(own);
  register_recurrent(own);
  register_convolution(own);
  register_sampling(own);
  register_losses(own);
  for (const std::string& name : own.names()) seen_.insert("aten::" + name);
  replaced_ += static_cast<int>(own.names().size());
}

void Installation::install(const c10::OperatorName& name) {
  const std::string full = toString(name);
  const std::size_t colons = full.find("::");
  if (colons == std::string::npos || seen_.count(full) > 0) return;
  const std::string plain = full.substr(colons + 2);
  const auto op = c10::Dispatcher::singleton().findOp(name);
  if (!op || !op->hasSchema()) return;
  if (full.starts_with("c10d::")) return;  // host code, which calls ops
  const bool is_aten = full.starts_with("aten::");
  if (!op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) && !(is_aten && is_emulated_whole(plain))) return;
  seen_.insert(full);
  if ((is_aten && is_host_code(plain)) || is_view(op->schema())) return;
  torch::Library& library = library_of(full.substr(0, colons));
  if (!op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    unmapped_.insert(full);
    library.impl(plain.c_str(), CppFunction::makeFromBoxedFunction<&refuse>());
    return;
  }
  library.impl(plain.c_str(), full == "aten::copy_" ? CppFunction::makeFromBoxedFunction<&run_copy>()
                                                    : CppFunction::makeFromBoxedFunction<&run_late>());
  ++replaced_;
}

int Installation::install() {
  const std::lock_guard lock(mutex_);
  const NoWarnings muted;
  if (libraries_.empty()) install_own();
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) install(name);
  return replaced_;
}

std::string Installation::unmapped() {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const std::string& op : unmapped_) lines += op + "\n";
  return lines;
}

Installation& installation() {
  static auto* const all = new Installation;  // kernels stay registered until the process ends
  return *all;
}

}  // namespace
}  // namespace tensorpager::emulation

#define TENSORPAGER_EXPORT extern "C" __attribute__((visibility("default")))

/// Registers all ops that there are by now; called again, those of libraries that were loaded since. Returns how many
/// ops run late.
TENSORPAGER_EXPORT int tensorpager_emulation_install() { return tensorpager::emulation::installation().install(); }

/// For tests: ops with a kernel for CUDA that throw, one a line. Valid until this thread's next call.
TENSORPAGER_EXPORT const char* tensorpager_emulation_unmapped() {
  thread_local std::string lines;
  lines = tensorpager::emulation::installation().unmapped();
  return lines.c_str();
}

/// For tests: ops that were waited for so far, one a line with the reason. Valid until this thread's next call.
TENSORPAGER_EXPORT const char* tensorpager_emulation_synchronous() {
  thread_local std::string lines;
  lines = tensorpager::emulation::synchronous_ops();
  return lines.c_str();
}
