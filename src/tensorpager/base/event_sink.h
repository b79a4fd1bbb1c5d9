// What happens in a running session, told to whoever records it: ops with the blocks that they touch, births and deaths
// of blocks, hints of the program. The session's parts call it where one is set, and test one pointer where none is.
//
// Blocks are known by numbers, given in the order of their births; none is used twice. Calls come from any thread, with
// no lock of the caller's held except where blocks are announced, and must not fail: a sink that runs out of memory
// ends the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// What the arithmetic of an op is done in; machines differ in their speed at each.
enum class Precision : std::uint8_t { kFloat32, kBfloat16, kFloat16, kFloat64 };

/// The name of what makes a block outside any op.
inline constexpr std::string_view kOutside = "outside";

struct OpFacts {
  std::string_view name;    // lives as long as the process
  bool random = false;      // draws from a generator
  bool list = false;        // works on lists of tensors (foreach, fused)
  bool backward = false;    // called by the autograd engine
  std::uint64_t flops = 0;  // 0 where no formula is known
  Bytes moved = {};  // bytes of its tensor arguments, twice what is updated in place; what it makes is not among them
  Precision precision = Precision::kFloat32;
  std::chrono::nanoseconds before{0};  // that its thread took since its last op ended, but for paging
};

struct Touch {
  std::uint64_t block;
  bool written;
};

struct NewBlock {
  std::uint64_t number;
  Bytes size;     // as asked for
  Bytes charged;  // rounded up to the granule
};

enum class Hint : std::uint8_t { kOptimizerBegins, kOptimizerEnds, kStepEnds };

class EventSink {
 public:
  /// An op under way: what `op_begins` returned. 0 is none.
  using Ticket = std::uint64_t;

  virtual ~EventSink() = default;

  virtual Ticket op_begins(const OpFacts& facts, std::span<const Touch> touched) noexcept = 0;
  /// An op that the kernel of this one calls touches these.
  virtual void op_touches(Ticket op, std::span<const Touch> touched) noexcept = 0;
  /// `took`: time in the kernel, but for paging.
  virtual void op_ends(Ticket op, std::chrono::nanoseconds took) noexcept = 0;

  /// By the op of this ticket, or outside any.
  virtual void block_born(Ticket op, const NewBlock& block) noexcept = 0;
  virtual void block_died(Ticket op, std::uint64_t number) noexcept = 0;
  /// What storages too small to be paged take together from now on, in charged bytes.
  virtual void slab_grew(Bytes slab) noexcept = 0;

  virtual void hint(Hint hint) noexcept = 0;
};

}  // namespace tensorpager::base
