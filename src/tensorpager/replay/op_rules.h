// Which ops can be run again for the bytes that they made: one table by schema, and a short list by name. What is known
// to hold for every op of torch is said by schema; the list has the exceptions, each of which was found by running
// torch's op database twice, or by reading. An op that no line knows is never replayed.
//
// An op has a rule for the kernels of each device: the CPU's, with one number of threads (see Ambient), and CUDA's.
// What is said of CUDA's kernels was not tried on hardware. It follows the documentation of
// torch.use_deterministic_algorithms, but that a convolution's forward pass counts as pure, as if cuDNN took the same
// algorithm each time.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/base/event_sink.h"

namespace tensorpager::replay {

enum class Purity : std::uint8_t {
  kNever,
  kPure,     // a function of its arguments; writes what its schema says
  kScratch,  // pure, if arguments that it writes unannounced are copies
  kNoDraw,   // pure if its probability of dropout is 0
  kDraws,    // pure, if the generator that it is given, or the default one, is in the state in which it was
};

struct OpRule {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  const c10::FunctionSchema* schema = nullptr;
  std::string name;  // aten::add.Tensor
  /// What depends on whose kernels run.
  struct OfDevice {
    Purity purity = Purity::kNever;
    const char* reason = "";
    bool has_kernel = false;  // of the device, or for all backends
    bool has_autocast_kernel = false;
  };
  OfDevice on_cpu, on_cuda;
  std::vector<std::uint32_t> written;  // arguments
  std::vector<std::uint32_t> scratch;  // arguments; of kScratch
  std::uint32_t dropout = kNone;       // argument; of kNoDraw
  std::uint32_t generator = kNone;     // argument; of kDraws
  std::vector<bool> returns_alias;     // by result
  std::uint32_t arguments = 0;
  std::uint32_t tensors = 0;  // arguments that are a tensor, or may be
  std::uint32_t returns = 0;
  bool is_random = false;         // draws, or a kernel of it may
  bool is_filling = false;        // writes all elements of its first argument and reads none
  bool is_torchs = false;         // not a library's
  bool has_own_autograd = false;  // a library's, which may do anything

  /// A replay gave other results in this process: it is never replayed again.
  mutable std::atomic<bool> differed{false};
  /// A test says that it is pure.
  mutable std::atomic<bool> is_trusted{false};

  const OfDevice& on(base::Device device) const { return device == base::Device::kHost ? on_cpu : on_cuda; }
  /// Whether this call can be replayed by the kernels of the device.
  bool allows(c10::ArrayRef<c10::IValue> call, base::Device device) const;
  /// Whether this call gives every byte of the storage that it writes a value, and reads none of them.
  bool fills_in(c10::ArrayRef<c10::IValue> call) const;
  /// What a purity comes to for this call: kNoDraw is kPure or kNever.
  Purity of_call(Purity of, c10::ArrayRef<c10::IValue> call) const;
};

/// Found without a lock after the first call of an op. Lives for ever.
const OpRule& op_rule(const c10::OperatorHandle& op);

/// What a trace says of this call, by the op's rule for the kernels of `device`. `call`: its arguments; empty if they
/// are not at hand, and then a call is pure only if it would be with any.
base::Purity purity_of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> call, base::Device device);

/// Calls `visit` for each op met so far.
void for_each_rule(const std::function<void(const OpRule&)>& visit);

}  // namespace tensorpager::replay
