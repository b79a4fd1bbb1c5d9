#include "tensorpager/dry/first_run.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tensorpager/dry/key.h"

namespace tensorpager::dry {

thread_local AllocationObserver* t_observer = nullptr;

namespace {

// One core of a machine of some years ago.
constexpr double kFlopsPerSecond = 30e9;
constexpr double kBytesPerSecond = 4e9;

/// Notes what this thread allocates and frees while it lives. Only the innermost is notified.
class Noted final : public AllocationObserver {
 public:
  Noted() : outer_(t_observer) { t_observer = this; }
  ~Noted() { t_observer = outer_; }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

  void allocated(const void* name, std::size_t size, std::size_t charged) noexcept override {
    changes_.push_back({name, size, charged, Change::Kind::kStays});
  }
  void freed(const void* name) noexcept override {
    for (auto birth = changes_.rbegin(); birth != changes_.rend(); ++birth) {
      if (birth->kind != Change::Kind::kStays || birth->name != name) continue;
      birth->kind = Change::Kind::kBirth;
      changes_.push_back({name, birth->size, birth->charged, Change::Kind::kDeath});
      return;
    }
  }

  /// The peak of the bytes that are freed by now.
  std::size_t most_temporary() const {
    std::size_t now = 0, most = 0;
    for (const Change& change : changes_) {
      if (change.kind == Change::Kind::kBirth) now += change.charged;
      if (change.kind == Change::Kind::kDeath) now -= change.charged;
      most = std::max(most, now);
    }
    return most;
  }
  /// Sizes of what is still there, in the order in which it was made.
  std::vector<std::size_t> staying() const {
    std::vector<std::size_t> sizes;
    for (const Change& change : changes_)
      if (change.kind == Change::Kind::kStays) sizes.push_back(change.size);
    return sizes;
  }

 private:
  struct Change {
    enum class Kind : std::uint8_t { kStays, kBirth, kDeath };  // a birth that no death follows; one that is; a death
    const void* name;
    std::size_t size, charged;
    Kind kind;
  };

  AllocationObserver* outer_;
  std::vector<Change> changes_;
};

/// Results are made in the order of storages of their sizes; those of one size are interchangeable.
void order_as_made(const Noted& noted, Outcome& outcome) {
  std::vector<std::uint32_t> left = std::exchange(outcome.made_in_order, {});
  for (const std::size_t size : noted.staying()) {
    const auto found =
        std::ranges::find_if(left, [&](std::uint32_t place) { return outcome.tensors[place].storage_bytes == size; });
    if (found == left.end()) continue;
    outcome.made_in_order.push_back(*found);
    left.erase(found);
  }
  outcome.made_in_order.insert(outcome.made_in_order.end(), left.begin(), left.end());
}

/// Small floating tensors that the op writes, as they were: they steer a program, and a kernel that ran on stand-ins
/// spoils them.
class SmallStates {
 public:
  SmallStates(const Call& call, std::size_t least_bytes) {
    call.for_each_tensor_argument([&](const at::Tensor& tensor, const OpTraits::Argument& argument) {
      if (!argument.written || argument.is_out || !is_floating(tensor) || bytes_of(tensor) >= least_bytes) return;
      const BackendGuard guard;
      saved_.emplace_back(tensor, unrecorded_like(tensor).copy_(tensor));
    });
  }
  ~SmallStates() {
    const BackendGuard guard;
    for (const auto& [tensor, before] : saved_) tensor.copy_(before);
  }
  SmallStates(const SmallStates&) = delete;
  SmallStates& operator=(const SmallStates&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

}  // namespace

double estimated_seconds(const Call& call, std::size_t argument_bytes) {
  std::vector<at::Tensor> tensors = tensor_arguments(call.traits, call.arguments());
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  const auto elements = [](const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); };
  const auto last = [](const at::Tensor& tensor) {
    return tensor.dim() > 0 ? static_cast<double>(tensor.size(-1)) : 1.;
  };
  double flops = 0;
  const std::size_t count = tensors.size();
  switch (call.traits.work) {
    case Work::kBytes:
      break;
    case Work::kMatrices:
      if (count >= 2) flops = 2 * elements(tensors[count - 2]) * last(tensors[count - 1]);
      break;
    case Work::kConvolution: {
      // Twice the places times the weights, thrice for a backward pass: it has the output's gradient in front.
      const bool backward = call.traits.name.find("backward") != std::string::npos;
      if (count < (backward ? 3U : 2U)) break;
      const at::Tensor &places = tensors[0], &weight = tensors[backward ? 2 : 1];
      if (places.dim() < 3) break;
      const double channels = static_cast<double>(places.size(1));
      flops = (backward ? 4 : 2) * elements(places) / std::max(channels, 1.) * elements(weight);
      break;
    }
    case Work::kAttention:
      if (count >= 2 && tensors[1].dim() >= 2)
        flops = 10 * elements(tensors[0]) * static_cast<double>(tensors[1].size(-2));
      break;
    case Work::kRecurrent:
      for (const at::Tensor& weight : tensors)
        if (weight.dim() == 2) flops += 4 * elements(tensors[0]) / last(tensors[0]) * elements(weight);
      break;
    case Work::kFactorization:
      if (count >= 1) flops = 20 * elements(tensors[0]) * last(tensors[0]);
      break;
  }
  return flops / kFlopsPerSecond + static_cast<double>(argument_bytes) / kBytesPerSecond;
}

bool FirstRuns::run(const Call& call, std::size_t argument_bytes, Outcome& outcome) {
  if (argument_bytes > options_.first_run_bytes) return false;
  const double seconds = estimated_seconds(call, argument_bytes);
  if (seconds > options_.first_run_seconds ||
      seconds_.load(std::memory_order_relaxed) + seconds > options_.first_runs_seconds)
    return false;
  seconds_.store(seconds_.load(std::memory_order_relaxed) + seconds, std::memory_order_relaxed);
  const std::vector<at::Tensor> arguments = tensor_arguments(call.traits, call.arguments());
  torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
  try {
    const SmallStates states(call, options_.least_bytes);
    const UnskippedGuard guard;
    Noted noted;
    call.op.redispatchBoxed(call.after, &stack);
    outcome.temporary_bytes = noted.most_temporary();
    if (!describe(arguments, stack, outcome)) outcome.runs = true;
    order_as_made(noted, outcome);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception&) {  // e.g. a matrix that is not positive definite
    return false;
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  call.finish(std::move(stack));
  return true;
}

void replay_temporaries(const Outcome& outcome) {
  if (outcome.temporary_bytes > 0) c10::GetCPUAllocator()->allocate(outcome.temporary_bytes);
}

}  // namespace tensorpager::dry
