#include "tensorpager/dry/card.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace tensorpager::dry {
namespace {

using Switch = bool (*)(bool on);

/// Null if no emulated card is loaded. See fake_cuda/kernels.h.
Switch skip_switch() {
  static const auto found = reinterpret_cast<Switch>(dlsym(RTLD_DEFAULT, "tensorpager_fake_cuda_skip"));
  return found;
}

}  // namespace

DroppedKernels::DroppedKernels(const std::string& op) {
  TORCH_CHECK(skip_switch() != nullptr, "Tensorpager: a dry run cannot skip ", op,
              " on a real CUDA device; start the program with --emulate h100-80g, or on the CPU");
  before_ = skip_switch()(true);
}

DroppedKernels::~DroppedKernels() { skip_switch()(before_); }

}  // namespace tensorpager::dry
