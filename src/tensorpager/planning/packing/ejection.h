// Fits blocks below a height, where packing in some order leaves some above it: what finds no gap takes the place of
// the blocks that are the least in its way, and these look for another. What found no gap before is harder to move, so
// that the search does not go round in circles.
//
// Every question looks at all blocks, in a row of memory: up to some thousand blocks that is quicker than a tree.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

class Ejection {
 public:
  /// Where a search begins: with blocks where they are, or with none but those that are fixed. Another begin may find
  /// what the first did not.
  enum class From : std::uint8_t { kWhereTheyAre, kNowhere };

  /// Blocks are there over [begin, release), for births until `copied`, counted round the window's end. Those that are
  /// fixed stay.
  Ejection(const std::vector<Interval>& intervals, std::uint32_t ops);

  /// Changes the offsets of these intervals, of which no two overlap, until all end within `space`. Returns false, and
  /// leaves all as they were, if that takes more `looks` at blocks than are left.
  bool fit(std::vector<Interval>& intervals, std::uint64_t space, std::uint64_t& looks, From from);

 private:
  struct Edge {
    std::uint64_t at;  // offset
    std::uint32_t block;
  };
  using Edges = std::vector<Edge>;  // by offset
  struct Weighed {
    std::uint64_t at;
    std::uint64_t weight;
  };
  struct Place {
    std::uint64_t offset;
    std::uint64_t weight;  // of what is in the way
  };

  void find_pairs(const std::vector<Interval>& intervals, std::uint32_t ops);
  void set_pair(std::uint32_t a, std::uint32_t b);
  bool meet(std::uint32_t a, std::uint32_t b) const { return (pairs_[a * words_ + b / 64] >> (b % 64) & 1) != 0; }
  std::size_t weigh(const Edges& edges, std::uint32_t block, std::vector<Weighed>& weighed) const;
  Place find(std::uint32_t block, std::uint64_t space);
  void put(std::uint32_t block, std::uint64_t offset);
  void take_away(std::uint32_t block);
  /// Removes the blocks in the way, and adds them to those without a place.
  void eject_for(std::uint32_t block, std::uint64_t offset, std::vector<std::uint32_t>& homeless);

  std::vector<std::uint64_t> bytes_;
  std::vector<bool> fixed_;
  std::size_t words_;                 // of 64 blocks
  std::vector<std::uint64_t> pairs_;  // a bit for each two blocks that are there together
  std::vector<std::uint64_t> weights_;
  std::vector<std::uint64_t> offsets_;
  Edges begins_;  // of blocks that have a place
  Edges ends_;
  std::vector<Weighed> beginning_;  // of those that are there together with one
  std::vector<Weighed> ending_;
};

}  // namespace tensorpager::planning
