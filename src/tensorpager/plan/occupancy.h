// Which offsets are taken at which ops: a tree over the ops whose nodes hold joined ranges. What is asked is where a
// block fits for a stretch of ops; both that and taking a stretch touch a logarithmic number of nodes.
#pragma once

#include <cstdint>
#include <vector>

namespace tensorpager::plan {

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Disjoint ranges in order; those that touch are joined.
class RangeSet {
 public:
  void add(Range range);
  void clear() { ranges_.clear(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

class Occupancy {
 public:
  explicit Occupancy(std::uint32_t ops);

  /// Gives all back, and keeps the memory for the next use.
  void clear();

  /// Takes the range at the ops of [begin, end).
  void take(std::uint32_t begin, std::uint32_t end, Range range);
  /// Appends the ranges that are taken at some op of [begin, end); they may overlap each other.
  void collect(std::uint32_t begin, std::uint32_t end, std::vector<Range>& taken) const;

 private:
  struct Node {
    RangeSet somewhere;   // taken at some op of the node's stretch
    RangeSet everywhere;  // taken by what covers the stretch, and not the stretch of the node above
  };
  void take(std::size_t node, std::uint32_t low, std::uint32_t high, std::uint32_t begin, std::uint32_t end,
            Range range);
  void collect(std::size_t node, std::uint32_t low, std::uint32_t high, std::uint32_t begin, std::uint32_t end,
               std::vector<Range>& taken) const;

  std::uint32_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace tensorpager::plan
