// Blocks that have an offset already while others are placed: kept by offset, and looked through in that order. Blocks
// are rectangles, ops by bytes; ops are counted round the window's end.
//
// Every question looks at all blocks, in a row of memory: up to some thousand blocks that is quicker than a tree.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

enum class Fit : std::uint8_t { kTightest, kLowest };

class PlacedBlocks {
 public:
  /// `starts` are the times at which ops start, and the window's end.
  explicit PlacedBlocks(const std::vector<Nanoseconds>& starts) : starts_(starts) {}

  void clear() {
    blocks_.clear();
    taken_.clear();
  }
  void add(const Interval& interval, std::uint64_t offset);

  /// Forgets blocks that are released before this op. All later calls begin later, and do not go over the window's end.
  void retire(std::int64_t op);
  /// The number of blocks that all calls looked at.
  std::uint64_t looks() const { return looks_; }

  /// Finds a gap for [begin, release); if there is none, the offset above all blocks in the way.
  std::uint64_t find(const Interval& interval, Fit fit);

  /// Where nothing else is resident in [need, end), and the longest that one must wait for another's transfer is least.
  /// Above `space` where there is no such place.
  std::uint64_t find_over_transfers(const Interval& interval, std::uint64_t space);

 private:
  /// A stretch of the window, which may go over its end.
  struct Stretch {
    std::uint32_t begin;
    std::uint32_t length;
  };
  struct Block {
    std::uint64_t offset;
    std::uint64_t end;
    Stretch taken;     // [begin, release)
    Stretch resident;  // [need, end)
  };
  struct Overlap {
    std::uint64_t offset;
    std::uint64_t end;
    std::uint64_t highest;  // end of this one and all before it
    Nanoseconds delay;      // if both lie there
  };
  /// Where nothing else is resident.
  struct Gap {
    std::uint64_t begin;
    std::uint64_t end;
  };

  Stretch stretch(std::int64_t begin, std::int64_t end) const;
  bool meet(Stretch a, Stretch b) const {
    const std::uint32_t after = distance(a.begin, b.begin);
    return after < a.length || ops() - after < b.length;
  }
  std::uint32_t distance(std::uint32_t from, std::uint32_t to) const { return to - from + (to >= from ? 0 : ops()); }
  /// Sets `met_` to the numbers of the blocks that are taken in some of the stretch, and says how many.
  std::size_t find_met(Stretch taken);
  std::uint32_t ops() const { return static_cast<std::uint32_t>(starts_.size() - 1); }
  Nanoseconds time_between(std::uint32_t from, std::uint32_t to) const;
  Nanoseconds delay(const Block& first, const Block& then) const;
  Block block_of(const Interval& interval, std::uint64_t offset) const;

  const std::vector<Nanoseconds>& starts_;
  std::vector<Block> blocks_;   // by offset
  std::vector<Stretch> taken_;  // theirs, side by side: all are looked at for each question
  std::vector<std::uint32_t> met_;
  std::vector<Overlap> overlaps_;  // by offset
  std::vector<Gap> gaps_;          // by offset
  std::uint64_t looks_ = 0;
};

}  // namespace tensorpager::planning
