#include "tensorpager/memory/rebinding_binding.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tensorpager/base/errors.h"

namespace tensorpager::memory {

using arena::End;
using arena::Piece;
using base::Bytes;
using pager::Access;
using pager::Block;

namespace {

constexpr int kPoison = 0xFF;  // NaN as a float, -1 as an index
/// A dirty block must be written below before it can go, and both kinds must be read back.
constexpr double kDirtyCost = 2, kCleanCost = 1;

}  // namespace

RebindingBinding::RebindingBinding(arena::AddressSpace& space, Holders& holders)
    : space_(space),
      holders_(holders),
      range_(base::round_up(base::physical_memory() + base::physical_memory(), base::kHugePage)),
      base_(space.take(range_)) {}

void RebindingBinding::protect(std::byte* at, Bytes size, int protection) {
  ++system_calls_;
  if (mprotect(at, size.count(), protection) != 0) throw base::IoError("mprotect", "the arena", size, errno);
}

std::vector<Block*> RebindingBinding::set_limit(Bytes budget) {
  const Bytes limit = std::min(budget, range_);
  const std::uint64_t whole = limit.count() / base::kPage.count() * base::kPage.count();
  if (whole > open_) {
    protect(base_ + open_, Bytes(whole - open_), PROT_READ | PROT_WRITE);
    open_ = whole;
  }
  region_.set_limit(Bytes(whole));
  std::vector<Block*> beyond;
  for (const std::uint64_t offset : region_.beyond_limit())
    if (Block* block = block_at(offset)) beyond.push_back(block);
  return beyond;
}

Block* RebindingBinding::block_at(std::uint64_t offset) const {
  return static_cast<Block*>(space_.owner_at(base_ + offset));
}

arena::Region::Cost RebindingBinding::cost(std::uint64_t now) const {
  // What eviction moves, over how long the block was not used: what it is likely to cost per op.
  return [this, now](std::uint64_t offset, Bytes size) -> std::optional<double> {
    const Block* block = block_at(offset);  // none: a slab chunk, or a page-in under way
    if (block == nullptr || block->is_absent() || block->is_pinned()) return std::nullopt;
    const std::uint64_t last_use = std::min(now, block->last_use.load(std::memory_order_relaxed));
    const double moved = static_cast<double>(size.count()) * (block->is_clean() ? kCleanCost : kDirtyCost);
    return moved / static_cast<double>(now - last_use + 1);
  };
}

std::optional<std::vector<Block*>> RebindingBinding::in_the_way(Bytes charged, pager::Place place, std::uint64_t now) {
  const bool is_slab = place == pager::Place::kSlab;
  const auto run = region_.cheapest_run(charged, is_slab ? charged : base::kPage, is_slab ? End::kLow : End::kHigh,
                                        cost(now));
  if (!run) return std::nullopt;
  std::vector<Block*> blocks;
  for (const std::uint64_t offset : *run) blocks.push_back(block_at(offset));
  return blocks;
}

Bytes RebindingBinding::largest_run(std::uint64_t now) const { return region_.largest_run(cost(now)); }

std::byte* RebindingBinding::place(Bytes size, Bytes alignment, End end) {
  const auto offset = region_.take(size, alignment, end);
  TENSORPAGER_CHECK(offset.has_value());  // the pager made the place
  return base_ + *offset;
}

void RebindingBinding::give_back(std::byte* at) { region_.give_back(static_cast<std::uint64_t>(at - base_)); }

std::byte* RebindingBinding::acquire(Bytes charged, Bytes) { return place(charged, base::kPage, End::kHigh); }

std::byte* RebindingBinding::acquire_slab_chunk(Bytes size, Bytes) { return place(size, size, End::kLow); }

void RebindingBinding::release(Block& block) noexcept {
  if (block.data != nullptr) {
    if (block.is_clean() && poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    if (poison_) std::memset(block.data, kPoison, block.charged.count());
    give_back(block.data);
  }
  if (block.holder != nullptr) holders_.forget(block);
}

void RebindingBinding::unbind(Block& block) {
  holders_.set_data(block, nullptr);
  if (poison_) {
    protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    std::memset(block.data, kPoison, block.charged.count());
  }
  space_.set_owner(block.data, nullptr);
  give_back(block.data);
  block.data = nullptr;
}

std::vector<Piece> RebindingBinding::stage(Block& block, Bytes) {
  return {{place(block.charged, base::kPage, End::kHigh), block.charged}};
}

void RebindingBinding::bind(Block& block, std::span<const Piece> pieces, Access access) {
  block.data = pieces.front().at;
  // The fuzzer finds writes that no op announced: they fault, and are counted.
  if (poison_ && access == Access::kRead) protect(block.data, block.charged, PROT_READ);
  space_.set_owner(block.data, &block);
  holders_.set_data(block, block.data);
}

void RebindingBinding::discard(std::span<const Piece> pieces) noexcept {
  for (const Piece& piece : pieces) give_back(piece.at);
}

void RebindingBinding::make_writable(Block& block) {
  if (poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
}

}  // namespace tensorpager::memory
