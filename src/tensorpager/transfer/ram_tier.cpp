#include "tensorpager/transfer/ram_tier.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;
using base::IoError;

constexpr const char* kAdvice = "page out to a file instead, with --spill DIR";

std::byte* map_range(Bytes capacity) {
  void* range =
      ::mmap(nullptr, capacity.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw IoError("mmap", "addresses for the RAM tier", capacity, errno, kAdvice);
  return static_cast<std::byte*>(range);
}

}  // namespace

RamTier::RamTier(Bytes capacity) : capacity_(capacity), range_(map_range(capacity)), space_(capacity, base::kPage) {}

RamTier::~RamTier() { ::munmap(range_, capacity_.count()); }

Slot RamTier::reserve(Bytes bytes) {
  TENSORPAGER_CHECK(bytes == base::round_up(bytes, base::kPage));
  const auto offset = space_.take(bytes);
  if (!offset) throw IoError("reserve", "the RAM tier", bytes, ENOMEM, kAdvice);
  populated_ = std::max(populated_, space_.top());
  return {.offset = *offset, .bytes = bytes};
}

void RamTier::release(const Slot& slot) noexcept {
  space_.give_back(slot.offset, slot.bytes);
  // Populated pages are worth keeping for the next page-out; they go back once half of them or more lie above what is
  // in use.
  if (space_.top() > populated_ / 2) return;
  ::madvise(range_ + space_.top(), populated_ - space_.top(), MADV_DONTNEED);
  populated_ = space_.top();
}

void RamTier::write(std::span<const std::byte> from, const Slot& slot, Bytes at) {
  TENSORPAGER_CHECK(at <= slot.bytes && Bytes(from.size()) <= slot.bytes - at);
  std::memcpy(range_ + slot.offset + at.count(), from.data(), from.size());
}

void RamTier::read(const Slot& slot, Bytes at, std::span<std::byte> to) {
  TENSORPAGER_CHECK(at <= slot.bytes && Bytes(to.size()) <= slot.bytes - at);
  std::memcpy(to.data(), range_ + slot.offset + at.count(), to.size());
}

std::unique_ptr<Tier> make_ram_tier() {
  const Bytes memory = base::physical_memory();
  // More than the machine's RAM would be killed for memory before it is full.
  return std::make_unique<RamTier>(Bytes(memory.count() - memory.count() % base::kPage.count()));
}

}  // namespace tensorpager::transfer
