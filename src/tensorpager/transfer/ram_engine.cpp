#include "tensorpager/transfer/ram_engine.h"

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

RamEngine::RamEngine(Bytes capacity)
    : capacity_(capacity), range_(map_range(capacity)), space_(capacity, base::kPage) {}

RamEngine::~RamEngine() { ::munmap(range_, capacity_.count()); }

Slot RamEngine::reserve(Bytes bytes) {
  TENSORPAGER_CHECK(bytes == base::round_up(bytes, base::kPage));
  const auto offset = space_.take(bytes);
  if (!offset) throw IoError("reserve", "the RAM tier", bytes, ENOMEM, kAdvice);
  populated_ = std::max(populated_, space_.top());
  return {.offset = *offset, .bytes = bytes};
}

void RamEngine::release(const Slot& slot) noexcept {
  space_.give_back(slot.offset, slot.bytes);
  // Populated pages are worth keeping for the next page-out; they go back once half of them or more lie above what is
  // in use.
  if (space_.top() > populated_ / 2) return;
  ::madvise(range_ + space_.top(), populated_ - space_.top(), MADV_DONTNEED);
  populated_ = space_.top();
}

Ticket RamEngine::submit_page_out(std::span<const std::byte> from, const Slot& slot, Bytes at) {
  TENSORPAGER_CHECK(at <= slot.bytes && Bytes(from.size()) <= slot.bytes - at);
  std::memcpy(range_ + slot.offset + at.count(), from.data(), from.size());
  return {};
}

Ticket RamEngine::submit_page_in(const Slot& slot, Bytes at, std::span<std::byte> to) {
  TENSORPAGER_CHECK(at <= slot.bytes && Bytes(to.size()) <= slot.bytes - at);
  std::memcpy(to.data(), range_ + slot.offset + at.count(), to.size());
  return {};
}

std::unique_ptr<Engine> make_ram_engine() {
  const Bytes memory = base::physical_memory();
  // More than the machine's RAM would be killed for memory before it is full.
  return std::make_unique<RamEngine>(Bytes(memory.count() - memory.count() % base::kPage.count()));
}

}  // namespace tensorpager::transfer
