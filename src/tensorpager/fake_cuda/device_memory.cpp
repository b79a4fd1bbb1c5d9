#include "tensorpager/fake_cuda/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {
namespace {

// A card maps any free pages to new addresses, so what is free is never in pieces. With twice the addresses that holds
// here too, but for the most contrived orders.
constexpr std::size_t kAddressesPerByte = 2;

[[noreturn]] void fail(const char* call, std::size_t bytes) {
  throw base::IoError(call, "an emulated card's memory", base::Bytes(bytes), errno, "try a card with less memory");
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes, Fit fit)
    : book_(bytes * kAddressesPerByte, bytes, fit), span_(bytes * kAddressesPerByte) {
  file_ = memfd_create("tensorpager emulated card", MFD_CLOEXEC);
  if (file_ < 0) fail("memfd_create", span_);
  void* view = MAP_FAILED;
  if (ftruncate(file_, static_cast<off_t>(span_)) == 0)
    view = mmap(nullptr, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  void* base = mmap(nullptr, span_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (view == MAP_FAILED || base == MAP_FAILED) fail("mmap", span_);
  view_ = static_cast<char*>(view);
  base_ = static_cast<char*>(base);
}

DeviceMemory::~DeviceMemory() {
  munmap(base_, span_);
  munmap(view_, span_);
  close(file_);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::optional<std::size_t> offset = book_.allocate(bytes);
  return offset ? base_ + *offset : nullptr;
}

std::optional<std::size_t> DeviceMemory::free(void* address) {
  const std::lock_guard lock(mutex_);
  if (!holds(address)) return std::nullopt;
  const std::optional<MemoryBook::Block> freed = book_.free(offset_of(address));
  if (!freed) return std::nullopt;
  // Whole pages only: the rest of an edge page may be another block's. A failure only costs memory.
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(freed->offset),
            static_cast<off_t>(freed->bytes));
  return freed->bytes;
}

bool DeviceMemory::holds(const void* address) const {
  return static_cast<const char*>(address) >= base_ && static_cast<const char*>(address) < base_ + span_;
}

std::size_t DeviceMemory::bytes_at(const void* address) const {
  const std::lock_guard lock(mutex_);
  if (!holds(address)) return 0;
  const std::optional<MemoryBook::Block> block = book_.find(offset_of(address));
  return block ? block->offset + block->bytes - offset_of(address) : 0;
}

std::size_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return book_.used();
}

}  // namespace tensorpager::fake_cuda
