#include "tensorpager/transfer/file_tier.h"

#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;

bool is_page_multiple(std::uint64_t n) { return n % base::kPage.count() == 0; }

/// A page-aligned transfer that lies inside its slot.
bool is_valid(const std::byte* memory, std::size_t size, const Slot& slot, Bytes at) {
  return is_page_multiple(reinterpret_cast<std::uintptr_t>(memory)) && is_page_multiple(size) &&
         is_page_multiple(at.count()) && at <= slot.bytes && Bytes(size) <= slot.bytes - at;
}

}  // namespace

FileTier::FileTier(std::string directory) : directory_(std::move(directory)) {
  files_.try_emplace(generation_, directory_);
}

Slot FileTier::reserve(Bytes bytes) {
  TENSORPAGER_CHECK(is_page_multiple(bytes.count()));
  // After a fork this makes the next generation's file; if that fails, nothing has changed and the next call tries
  // again.
  SpillFile* file = nullptr;
  {
    const std::lock_guard lock(mutex_);
    file = &files_.try_emplace(generation_, directory_).first->second;
  }
  const Slot slot{.offset = file->reserve(bytes), .bytes = bytes, .file = generation_};
  reserved_ += bytes;
  return slot;
}

void FileTier::release(const Slot& slot) noexcept {
  SpillFile& file = file_of(slot);
  file.release(slot.offset, slot.bytes);
  reserved_ -= slot.bytes;
  if (!file.empty()) return;
  // A frozen file is never cut: the other process may still have slots in it, and closing ours leaves them alone.
  if (slot.file == generation_) {
    file.truncate();
  } else {
    const std::lock_guard lock(mutex_);
    files_.erase(slot.file);
  }
}

// Transfers change nothing in the tier: pread and pwrite have no file position, and which file a slot is in never
// changes.
void FileTier::write(std::span<const std::byte> from, const Slot& slot, Bytes at) {
  const bool slot_is_younger_than_the_last_fork = slot.file == generation_;
  TENSORPAGER_CHECK(slot_is_younger_than_the_last_fork);
  TENSORPAGER_CHECK(is_valid(from.data(), from.size(), slot, at));
  file_of(slot).write(from, slot.offset + at.count());
}

void FileTier::read(const Slot& slot, Bytes at, std::span<std::byte> to) {
  TENSORPAGER_CHECK(is_valid(to.data(), to.size(), slot, at));
  file_of(slot).read(slot.offset + at.count(), to);
}

void FileTier::after_fork() {
  const auto current = files_.find(generation_);
  if (current == files_.end()) return;
  // Empty or not, it is the other process's file too: a slot in it would be written by both.
  if (current->second.empty()) files_.erase(current);
  ++generation_;
}

SpillFile& FileTier::file_of(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  const auto file = files_.find(slot.file);
  TENSORPAGER_CHECK(file != files_.end());
  return file->second;
}

std::unique_ptr<Tier> make_file_tier(const std::string& directory) { return std::make_unique<FileTier>(directory); }

}  // namespace tensorpager::transfer
