// Traces made from a seed: arbitrary ones, which need not look like training, and training steps of any length.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

inline trace::StorageId storage(std::size_t i) { return static_cast<trace::StorageId>(i); }

/// Storages of all kinds: parameters, gradients that live over the window's end, activations, small ones, unused ones,
/// ones that live on after their last use; ops with temporaries, in-place writes and repeated arguments.
class RandomTrace {
 public:
  explicit RandomTrace(unsigned seed) : random_(seed) {}

  trace::Trace make() {
    trace_.granule = base::Bytes(below(2) == 0 ? 512 : 4096);
    const std::size_t parameters = below(6);
    const std::size_t gradients = below(4);
    for (std::size_t i = 0; i < parameters + gradients; ++i) {
      add_storage(true);
      alive_.push_back(storage(i));
    }
    const std::size_t ops = 1 + below(60);
    std::vector<trace::StorageId> to_die;
    for (std::size_t i = parameters; i < parameters + gradients; ++i) to_die.push_back(storage(i));
    for (std::size_t op = 0; op < ops; ++op) add_op(op, ops, to_die);
    return std::move(trace_);
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::size_t add_storage(bool entry) {
    const std::size_t bytes = below(6) == 0 ? below(17'000) : 16'384 + below(8) * 8192 + below(3) * below(100'000);
    trace_.storages.push_back({.bytes = base::Bytes(bytes), .entry = entry});
    return trace_.storages.size() - 1;
  }

  void kill(trace::Op& op, trace::StorageId id) {
    op.deaths.push_back(id);
    std::erase(alive_, id);
  }

  void add_op(std::size_t number, std::size_t ops, std::vector<trace::StorageId>& to_die) {
    trace::Op op{.name = "op" + std::to_string(number)};
    op.time = std::chrono::nanoseconds(below(200'000));
    if (below(5) == 0) op.temporary = base::Bytes(below(60'000));
    for (std::size_t i = 0; i < below(4) && !alive_.empty(); ++i) {
      auto& list = below(3) == 0 ? op.writes : op.reads;
      const trace::StorageId id = alive_[below(alive_.size())];
      if (std::ranges::find(list, id) == list.end()) list.push_back(id);
    }
    for (std::size_t i = 0; i < below(3); ++i) {
      op.births.push_back(storage(add_storage(false)));
      alive_.push_back(op.births.back());
      mortal_.push_back(op.births.back());
    }
    const bool last = number + 1 == ops;
    // A storage of the entry dies in the first half, and is born again in the second.
    if (number < ops / 2 && !to_die.empty() && below(3) == 0) {
      kill(op, to_die.back());
      to_be_born_.push_back(to_die.back());
      to_die.pop_back();
    } else if (number >= ops / 2 && !to_be_born_.empty() && (last || below(2) == 0)) {
      while (!to_be_born_.empty()) {
        op.births.push_back(to_be_born_.back());
        alive_.push_back(to_be_born_.back());
        to_be_born_.pop_back();
      }
    }
    while (!mortal_.empty() && (last || below(3) == 0)) {
      const std::size_t which = below(mortal_.size());
      kill(op, mortal_[which]);
      mortal_.erase(mortal_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    trace_.ops.push_back(std::move(op));
  }

  std::mt19937 random_;
  trace::Trace trace_;
  std::vector<trace::StorageId> alive_;
  std::vector<trace::StorageId> mortal_;
  std::vector<trace::StorageId> to_be_born_;
};

inline trace::Trace random_trace(unsigned seed) { return RandomTrace(seed).make(); }

/// Three of four ops may run again, and of those that write one storage without reading it half fill it.
inline trace::Trace with_pure_ops(trace::Trace trace, unsigned seed) {
  std::mt19937 random(seed);
  for (trace::Op& op : trace.ops) {
    const bool may_fill = op.writes.size() == 1 && std::ranges::find(op.reads, op.writes.front()) == op.reads.end();
    op.purity = random() % 4 == 0               ? trace::Purity::kNever
                : may_fill && random() % 2 == 0 ? trace::Purity::kFills
                                                : trace::Purity::kPure;
  }
  return trace;
}

/// Gives every storage that lives through the window an identity, so that it is known in other classes' traces.
inline trace::Trace with_identities(trace::Trace trace) {
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    if (trace.storages[i].entry) trace.storages[i].identity = i;
  }
  return trace;
}

/// Another class of windows over the same storages: most reads are left out, and ops take other times.
inline trace::Trace other_class(trace::Trace trace, unsigned seed) {
  std::mt19937 random(seed);
  for (trace::Op& op : trace.ops) {
    std::erase_if(op.reads, [&](trace::StorageId) { return random() % 3 != 0; });
    op.time = op.time * (random() % 4) / 2;
    op.moved = base::Bytes(op.moved.count() / (1 + random() % 4));
    op.temporary = {};
  }
  return trace;
}

/// A training step of about so many ops: layers of two forward and three backward ops and an update, with activations
/// that wait for backward, and sizes that change every few layers as in a convolutional net.
inline trace::Trace layered_trace(std::size_t ops) {
  trace::Trace trace{.granule = base::Bytes(512)};
  const std::size_t layers = std::max<std::size_t>(ops / 6, 1);
  const auto add = [&](std::uint64_t bytes, bool entry) {
    trace.storages.push_back({.bytes = base::Bytes(bytes), .entry = entry});
    return storage(trace.storages.size() - 1);
  };
  const auto activation_bytes = [&](std::size_t layer) {
    return std::uint64_t{100'000} * (1 + (layer * 7) % 5) * (std::uint64_t{8} >> (4 * layer / layers));
  };
  std::vector<trace::StorageId> weights;
  for (std::size_t layer = 0; layer < layers; ++layer) weights.push_back(add(20'000 + 9'000 * (layer % 11), true));
  const trace::StorageId input = add(400'000, true);
  std::vector<trace::StorageId> linear;
  std::vector<trace::StorageId> activations = {input};
  const auto op = [&](const char* name, std::vector<trace::StorageId> reads, std::vector<trace::StorageId> births,
                      std::vector<trace::StorageId> deaths, std::uint64_t moved) {
    trace.ops.push_back({.name = name,
                         .reads = std::move(reads),
                         .births = std::move(births),
                         .deaths = std::move(deaths),
                         .flops = moved * 100,
                         .moved = base::Bytes(moved)});
  };
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::uint64_t bytes = activation_bytes(layer);
    linear.push_back(add(bytes, false));
    op("linear", {activations.back(), weights[layer]}, {linear.back()}, {}, 2 * bytes);
    activations.push_back(add(bytes, false));
    op("relu", {linear.back()}, {activations.back()}, {}, 2 * bytes);
  }
  trace::StorageId gradient = add(activation_bytes(layers - 1), false);
  op("loss", {activations.back()}, {gradient}, {}, 1000);
  for (std::size_t layer = layers; layer-- > 0;) {
    const std::uint64_t bytes = activation_bytes(layer);
    const trace::StorageId through = add(bytes, false);
    op("relu_backward", {gradient, linear[layer]}, {through}, {gradient, linear[layer], activations[layer + 1]},
       3 * bytes);
    const trace::StorageId of_weight = add(trace.storages[trace::index(weights[layer])].bytes.count(), false);
    op("weight_backward", {through, activations[layer]}, {of_weight}, {}, 2 * bytes);
    gradient = add(layer > 0 ? activation_bytes(layer - 1) : 400'000, false);
    std::vector<trace::StorageId> deaths = {through};
    if (layer == 0) deaths.push_back(gradient);
    op("input_backward", {through, weights[layer]}, {gradient}, deaths, 2 * bytes);
    op("update", {of_weight}, {}, {of_weight}, 60'000);
    trace.ops.back().writes = {weights[layer]};
  }
  return trace;
}

}  // namespace tensorpager::plan
