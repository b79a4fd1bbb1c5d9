#include "tensorpager/fake_cuda/shadow.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr std::uintptr_t kPage = 4096;

}  // namespace

Shadow::Shadow(const void* base, std::size_t bytes, int queues)
    : base_(start(base)), bytes_(bytes), cells_per_row_(2 + static_cast<std::size_t>(queues)) {
  mapped_bytes_ = (bytes / kGranule + 1) * cells_per_row_ * sizeof(std::uint32_t);
  void* at = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw base::IoError("mmap", "the race checker", base::Bytes(mapped_bytes_), errno,
                        "try TENSORPAGER_EMULATE_RACES=0");
  cells_ = static_cast<std::uint32_t*>(at);
}

Shadow::~Shadow() {
  if (cells_) munmap(cells_, mapped_bytes_);
}

Shadow::Shadow(Shadow&& other) noexcept
    : base_(other.base_),
      bytes_(other.bytes_),
      cells_per_row_(other.cells_per_row_),
      cells_(std::exchange(other.cells_, nullptr)),
      mapped_bytes_(other.mapped_bytes_) {}

bool Shadow::holds(const void* address) const { return start(address) >= base_ && start(address) < base_ + bytes_; }

void Shadow::forget(const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t first = offset_of(from) / kGranule;
  const std::size_t last = (offset_of(from) + bytes - 1) / kGranule;
  char* begin = reinterpret_cast<char*>(row(first).cells);
  char* end = reinterpret_cast<char*>(row(last + 1).cells);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  char* first_page = begin + (kPage - address % kPage) % kPage;
  char* last_page = end - reinterpret_cast<std::uintptr_t>(end) % kPage;
  if (first_page >= last_page) {
    std::memset(begin, 0, static_cast<std::size_t>(end - begin));
    return;
  }
  std::memset(begin, 0, static_cast<std::size_t>(first_page - begin));
  std::memset(last_page, 0, static_cast<std::size_t>(end - last_page));
  madvise(first_page, static_cast<std::size_t>(last_page - first_page), MADV_DONTNEED);  // reads as zeros then
}

}  // namespace tensorpager::fake_cuda
