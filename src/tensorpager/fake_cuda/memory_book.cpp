#include "tensorpager/fake_cuda/memory_book.h"

#include <algorithm>
#include <iterator>

namespace tensorpager::fake_cuda {

MemoryBook::MemoryBook(std::size_t span, std::size_t limit, Fit fit) : limit_(limit), fit_(fit), free_{{0, span}} {}

MemoryBook::Parts::iterator MemoryBook::choose(std::size_t bytes) {
  auto chosen = free_.end();
  for (auto part = free_.begin(); part != free_.end(); ++part) {
    if (part->second < bytes || (chosen != free_.end() && part->second >= chosen->second)) continue;
    chosen = part;
    if (fit_ == Fit::kFirst) break;
  }
  return chosen;
}

std::optional<std::size_t> MemoryBook::allocate(std::size_t bytes) {
  if (bytes > limit_) return std::nullopt;
  const std::size_t rounded = std::max(kUnit, (bytes + kUnit - 1) / kUnit * kUnit);
  if (rounded > limit_ - used_) return std::nullopt;
  const auto part = choose(rounded);
  if (part == free_.end()) return std::nullopt;
  const auto [offset, size] = *part;
  free_.erase(part);
  if (size > rounded) free_[offset + rounded] = size - rounded;
  allocated_[offset] = rounded;
  used_ += rounded;
  return offset;
}

std::optional<MemoryBook::Block> MemoryBook::free(std::size_t offset) {
  const auto found = allocated_.find(offset);
  if (found == allocated_.end()) return std::nullopt;
  const Block freed{offset, found->second};
  allocated_.erase(found);
  used_ -= freed.bytes;
  auto part = free_.emplace(freed.offset, freed.bytes).first;
  if (const auto after = std::next(part); after != free_.end() && part->first + part->second == after->first) {
    part->second += after->second;
    free_.erase(after);
  }
  if (part == free_.begin()) return freed;
  if (const auto before = std::prev(part); before->first + before->second == part->first) {
    before->second += part->second;
    free_.erase(part);
  }
  return freed;
}

std::optional<MemoryBook::Block> MemoryBook::find(std::size_t offset) const {
  auto after = allocated_.upper_bound(offset);
  if (after == allocated_.begin()) return std::nullopt;
  const auto& [start, bytes] = *std::prev(after);
  if (offset >= start + bytes) return std::nullopt;
  return Block{start, bytes};
}

}  // namespace tensorpager::fake_cuda
