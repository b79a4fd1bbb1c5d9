// An unlinked file and the free space in it. Holds the descriptor.
//
// Calls come from one thread at a time, but `write` and `read`, which may run beside any other call.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/extents.h"

namespace tensorpager::transfer {

class SpillFile {
 public:
  /// Throws IoError if no file can be made in `directory` or not even one page can be written to it.
  explicit SpillFile(const std::string& directory);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Returns an offset. Room is only set aside here: the disk allocates when it is written, so a full disk shows at a
  /// write (Note [A full disk shows at a write]).
  std::uint64_t reserve(base::Bytes bytes);
  void release(std::uint64_t offset, base::Bytes bytes) { space_.give_back(offset, bytes); }
  bool is_direct() const { return direct_; }
  bool empty() const { return space_.taken() == base::Bytes(0); }

  /// Transfers all, or throws IoError; memory, offset and size are multiples of the page.
  void write(std::span<const std::byte> from, std::uint64_t offset) const;
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// Gives the disk all its room back; the file is empty then.
  void truncate() const noexcept;

 private:
  void enable_direct_io();
  template <class Call>
  void transfer_all(const char* name, Call call, std::size_t size, int error_when_stuck) const;

  std::string directory_;
  int descriptor_;
  bool direct_ = false;  // O_DIRECT works here: reads and writes go past the page cache
  base::Extents space_{base::kUnlimited, base::kPage};
};

}  // namespace tensorpager::transfer
