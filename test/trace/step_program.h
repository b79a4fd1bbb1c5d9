// A program as a recorder sees it: layers, an optimizer, and whatever else programs do between steps. Its blocks are
// large enough to be paged.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensorpager/trace/recorder.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::trace {

/// Ops of a step of six layers: a batch 1, forward 6, backward 6, with gradients to add to 12, optimizer 18,
/// evaluation 12.
constexpr std::size_t kStep = 1 + 6 + 6 + 18;

class StepProgram {
 public:
  static constexpr base::Bytes kLayer{std::uint64_t{64} << 10};

  explicit StepProgram(std::size_t layers = 6) : activations_(layers) {
    for (std::size_t i = 0; i < layers; ++i) {
      weights_.push_back(make("init"));
      run("normal_", {{weights_.back(), true}});
    }
    moments_.resize(layers);
    gradients_.resize(layers);
  }

  /// A batch of this size replaces the one before, after it is made, as a Python variable does.
  void load(base::Bytes batch = kLayer) {
    const auto old = batch_;
    batch_ = make("stack", {}, batch);
    free(old);
  }
  void unload() { free(std::exchange(batch_, 0)); }
  void zero_grad() {
    for (auto& gradient : gradients_) free(std::exchange(gradient, 0));
  }
  void forward() {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      activations_[i] = make("mm", {{weights_[i], false}, {i == 0 ? batch_ : activations_[i - 1], false}}, size_);
  }
  void backward() {
    for (std::size_t i = weights_.size(); i-- > 0;) {
      const auto gradient = make("mm", {{weights_[i], false}, {activations_[i], false}}, kLayer, true);
      if (gradients_[i] == 0) {
        gradients_[i] = gradient;
      } else {
        run("add_", {{gradients_[i], true}, {gradient, false}}, true);
        free(gradient);
      }
      free(std::exchange(activations_[i], 0));
    }
  }
  /// By the norm of all gradients, and an update of all weights in one op, as on CUDA.
  void clip_and_step_at_once() {
    std::vector<base::Touch> gradients, all;
    for (const auto gradient : gradients_) gradients.push_back({gradient, true}), all.push_back({gradient, false});
    for (const auto weight : weights_) all.push_back({weight, true});
    auto norm = make("_foreach_norm", gradients);
    for (const char* name : {"stack", "vector_norm", "add", "reciprocal", "mul", "clamp", "sub", "where"})
      free(std::exchange(norm, make(name, {{norm, false}})));
    gradients.push_back({norm, false});
    run("_foreach_mul_", gradients);
    free(norm);
    recorder.hint(base::Hint::kOptimizerBegins);
    run("_fused_sgd_", all);
    recorder.hint(base::Hint::kOptimizerEnds);
  }
  /// One parameter after the other, as Adam does on the CPU.
  void step(bool hints = true) {
    if (hints) recorder.hint(base::Hint::kOptimizerBegins);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (moments_[i] == 0) moments_[i] = make("zeros_like", {{weights_[i], false}});
      run("lerp_", {{moments_[i], true}, {gradients_[i], false}});
      const auto root = make("sqrt", {{moments_[i], false}});
      run("addcdiv_", {{weights_[i], true}, {moments_[i], false}, {root, false}});
      free(root);
    }
    if (hints) recorder.hint(base::Hint::kOptimizerEnds);
  }
  /// Of what the last optimizer made, until the next step.
  enum class Rate : std::uint8_t { kFreed, kStays };
  /// An optimizer for each weight steps as soon as its gradient is there, which is freed then.
  void step_in_backward(Rate last = Rate::kFreed) {
    if (rate_ != 0) free(std::exchange(rate_, 0));
    for (std::size_t i = weights_.size(); i-- > 0;) {
      gradients_[i] = make("mm", {{weights_[i], false}, {activations_[i], false}}, kLayer, true);
      free(std::exchange(activations_[i], 0));
      recorder.hint(base::Hint::kOptimizerBegins);
      if (moments_[i] == 0) moments_[i] = make("zeros_like", {{weights_[i], false}}, kLayer, true);
      const auto rate = make("outside", {}, kLayer);  // no op of the engine
      run("addcdiv_", {{weights_[i], true}, {moments_[i], true}, {gradients_[i], false}, {rate, false}}, true);
      if (i == 0 && last == Rate::kStays)
        rate_ = rate;
      else
        free(rate);
      recorder.hint(base::Hint::kOptimizerEnds);
      free(std::exchange(gradients_[i], 0));
    }
  }
  void train(std::size_t steps = 1) {
    for (std::size_t i = 0; i < steps; ++i) load(), zero_grad(), forward(), backward(), step();
  }
  /// Each layer's result dies when the next is made.
  void evaluate(std::size_t batches) {
    for (std::size_t batch = 0; batch < batches; ++batch) {
      auto last = batch_;
      for (const auto weight : weights_) {
        const auto next = make("mm", {{weight, false}, {last, false}});
        const auto active = make("relu", {{next, false}});
        free(next);
        if (last != batch_) free(last);
        last = active;
      }
      free(last);
    }
  }

  std::uint64_t make(const char* op, std::vector<base::Touch> touched = {}, base::Bytes size = kLayer,
                     bool backward = false) {
    const auto ticket = recorder.op_begins({.name = op, .backward = backward}, touched);
    recorder.block_born(ticket, {++last_, size, size});
    recorder.op_ends(ticket, std::chrono::microseconds(10));
    return last_;
  }
  void run(const char* op, std::vector<base::Touch> touched, bool backward = false) {
    recorder.op_ends(recorder.op_begins({.name = op, .backward = backward}, touched), std::chrono::microseconds(10));
  }
  void free(std::uint64_t block) {
    if (block != 0) recorder.block_died(0, block);
  }
  std::uint64_t weight(std::size_t i) const { return weights_[i]; }
  void resize(base::Bytes activations) { size_ = activations; }

  /// `4 x 21` for each class: how many windows of how many ops.
  std::vector<std::string> classes() const {
    std::vector<std::string> all;
    for (const WindowClass& one : classify_windows(recorder.stream()))
      all.push_back(std::to_string(one.windows.size()) + " x " + std::to_string(one.trace.ops.size()));
    return all;
  }

  Recorder recorder{base::kPage};

 private:
  std::uint64_t last_ = 0, batch_ = 0, rate_ = 0;
  base::Bytes size_ = kLayer;                                               // of activations
  std::vector<std::uint64_t> weights_, moments_, gradients_, activations_;  // 0: there is none
};

}  // namespace tensorpager::trace
