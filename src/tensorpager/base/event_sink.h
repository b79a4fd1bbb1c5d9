// The interface through which a running session reports its events to a recorder: ops with the blocks that they touch,
// births and deaths of blocks, hints of the program. Without a recorder, the parts of a session only test one pointer.
//
// Blocks are identified by numbers, given in the order of their births and never reused. Calls come from any thread.
// The caller holds no lock, except where blocks are announced. Calls must not fail: a sink that runs out of memory ends
// the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// The precision of an op's arithmetic; a machine has a speed for each.
enum class Precision : std::uint8_t { kFloat32, kTf32, kBfloat16, kFloat16, kFloat64 };

/// Whether an op gives the same results if it runs again with the arguments that it had.
enum class Purity : std::uint8_t {
  kNever,    // or nobody knows
  kPure,     // it does; what it writes are storages that were made in the window
  kScratch,  // it does, on clones of the storages that it writes: batch norm and its running statistics
  kFills,    // it does, and gives each byte of the storage that it writes a value without reading it: a draw, a copy
};

/// The maker of blocks that are born outside any op.
inline constexpr std::string_view kOutside = "outside";

struct OpFacts {
  std::string_view name;    // lives as long as the process
  bool random = false;      // draws from a generator
  bool list = false;        // works on lists of tensors (foreach, fused)
  bool backward = false;    // called by the autograd engine
  std::uint64_t flops = 0;  // 0 if no formula is known
  Bytes moved = {};         // bytes of its tensor arguments, twice if updated in place; its results are not included
  Precision precision = Precision::kFloat32;
  Purity purity = Purity::kNever;
  std::chrono::nanoseconds before{0};  // time of its thread since the thread's last op ended, without paging
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
  /// The op in progress that `op_begins` returned; 0 for none.
  using Ticket = std::uint64_t;
  /// Of blocks that a library's own thread makes beside the program's ops.
  static constexpr Ticket kBeside = ~Ticket{0};

  virtual ~EventSink() = default;

  virtual Ticket op_begins(const OpFacts& facts, std::span<const Touch> touched) noexcept = 0;
  /// The kernel of this op calls another op, which touches these blocks.
  virtual void op_touches(Ticket op, std::span<const Touch> touched) noexcept = 0;
  /// `took`: time in the kernel, without paging; zero if `op_timed` follows. Returns the op that its time counts to: of
  /// an op of which nothing is kept, the one before; 0: none.
  virtual Ticket op_ends(Ticket op, std::chrono::nanoseconds took) noexcept = 0;
  /// How long an op, or one whose time counts to it, took on a device that computes later. Ops of a device are told of
  /// in any order.
  virtual void op_timed(Ticket op, std::chrono::nanoseconds took) noexcept = 0;

  /// `op`: the op that makes the block; 0 outside any op; or kBeside.
  virtual void block_born(Ticket op, const NewBlock& block) noexcept = 0;
  virtual void block_died(Ticket op, std::uint64_t number) noexcept = 0;
  /// The charged bytes of all storages that are too small to be paged, from now on.
  virtual void slab_grew(Bytes slab) noexcept = 0;

  virtual void hint(Hint hint) noexcept = 0;
};

}  // namespace tensorpager::base
