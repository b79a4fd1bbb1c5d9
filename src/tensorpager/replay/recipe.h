// How the contents of a block are made again: by a captured call, from contents of other blocks, which may have to be
// made first. Contents are told apart by the block's number and a version, which each announced write raises. Blocks
// are known by number only, so that no call keeps any memory but copies of small arguments.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tensorpager/device/compute_queues.h"
#include "tensorpager/replay/captured_op.h"
#include "tensorpager/replay/op_rules.h"
#include "tensorpager/replay/use.h"

namespace tensorpager::replay {

struct Contents {
  std::uint64_t block = 0;  // number; 0: none
  std::uint32_t version = 0;

  auto operator<=>(const Contents&) const = default;
};

using WeakStorage = std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>;

struct Call;

/// One of the things that a call makes; empty if nobody knows how something was made.
struct Product {
  std::shared_ptr<const Call> call;
  std::uint32_t output = 0;

  explicit operator bool() const { return call != nullptr; }
};

struct Call {
  /// One storage among the arguments, by its number in the captured op.
  struct Input {
    Use use = Use::kRead;
    Contents contents;  // none if it has a copy
    WeakStorage storage;
    c10::Storage copy;      // of one that is too small to be a block
    Product made_by;        // if it must be made again
    std::size_t bytes = 0;  // of the storage

    /// Whether what a block held is needed to make the call again.
    bool needs_contents() const { return !copy && use != Use::kFilled; }
  };
  /// One storage that the call made, or wrote.
  struct Output {
    static constexpr std::uint32_t kWritten = ~std::uint32_t{0};  // or filled

    Contents contents;
    WeakStorage storage;
    std::uint32_t result = kWritten;  // which tensor among all results, or kWritten
    std::uint32_t input = 0;          // of kWritten: which input it wrote
  };

  explicit Call(CapturedOp captured) : op(std::move(captured)) {}

  /// Whether it makes all of the output, and does not change what was there.
  bool makes_anew(const Output& output) const {
    return output.result != Output::kWritten || inputs[output.input].use == Use::kFilled;
  }

  CapturedOp op;
  const OpRule* rule = nullptr;
  std::uint64_t row = 0;  // of the plan that replays it, see ActionSource::replayed_later; 0: of no plan
  device::QueueSet copied_in = device::kNoQueue;  // the queue in which copies of small arguments were made
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::uint32_t depth = 1;  // calls in the longest chain behind it, itself included
};

}  // namespace tensorpager::replay
