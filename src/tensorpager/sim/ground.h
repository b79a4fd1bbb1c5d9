// The arena of the follower: which blocks lie where, and which ranges page-outs still read. Owners are numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tensorpager::sim {

using Owner = std::uint64_t;
using Nanoseconds = std::chrono::nanoseconds;

class Ground {
 public:
  explicit Ground(std::uint64_t size) : size_(size) {}

  struct Block {
    std::uint64_t end;
    Owner owner;
  };
  struct Gap {
    std::uint64_t begin;
    std::uint64_t end;
  };

  std::uint64_t size() const { return size_; }
  const std::map<std::uint64_t, Block>& blocks() const { return blocks_; }
  /// Blocks that overlap the range.
  std::vector<Owner> owners(std::uint64_t begin, std::uint64_t end) const;
  /// Ranges without blocks, and those without page-outs under way if `idle`.
  std::vector<Gap> gaps(bool idle, Nanoseconds now);

  /// Takes a range without blocks; since when nothing reads it any more. Throws where it is not free.
  Nanoseconds take(std::uint64_t begin, std::uint64_t bytes, Owner owner);
  /// Gives a block back; what it held is read until `busy_until`.
  void give_back(std::uint64_t begin, Nanoseconds busy_until);

  /// Bytes of blocks, and of what is still read and not taken again.
  std::uint64_t charged(Nanoseconds now);

 private:
  struct Busy {
    std::uint64_t begin;
    std::uint64_t end;
    Nanoseconds until;
  };

  void forget_done(Nanoseconds now);

  std::uint64_t size_;
  std::map<std::uint64_t, Block> blocks_;  // by begin
  std::vector<Busy> busy_;
};

}  // namespace tensorpager::sim
