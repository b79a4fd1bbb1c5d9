// The file tier. Transfers are done when they are submitted.
//
// A process writes to one file, the current generation. A fork ends the generation in both processes: that file is then
// frozen, its slots stay readable until released (their room is never used again), and the next reserve makes a file
// that only its own process has. So there are never two writers, and nothing that the other process may still read is
// overwritten.
#pragma once

#include <map>
#include <mutex>

#include "tensorpager/base/extents.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::transfer {

/// An unlinked file and the free space in it. Holds the descriptor.
class SpillFile {
 public:
  /// Throws IoError if no file can be made in `directory` or not even one page can be written to it.
  explicit SpillFile(const std::string& directory);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Returns an offset. Room is only set aside here: the disk allocates when it is written, so a full disk shows at a
  /// write.
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

class FileEngine final : public Engine {
 public:
  explicit FileEngine(std::string directory);

  Slot reserve(base::Bytes bytes) override;
  void release(const Slot& slot) noexcept override;
  Ticket submit_page_out(std::span<const std::byte> from, const Slot& slot, base::Bytes at) override;
  Ticket submit_page_in(const Slot& slot, base::Bytes at, std::span<std::byte> to) override;
  void wait(Ticket) override {}
  bool may_fail_late() const override { return true; }  // under a queue: the disk allocates when it is written
  void after_fork(bool in_child) override;
  base::Bytes reserved() const override { return reserved_; }
  std::string name() const override { return "file in " + directory_; }

 private:
  SpillFile& file_of(const Slot& slot);

  std::string directory_;
  std::mutex mutex_;                          // guards files_: transfers on other threads read it
  std::map<std::uint32_t, SpillFile> files_;  // by generation; all but the current one are frozen
  std::uint32_t generation_ = 0;              // the current one; its file is made when first needed
  base::Bytes reserved_;
};

}  // namespace tensorpager::transfer
