// The file tier. A process writes to one file, the current generation. A fork ends the generation in both processes:
// that file is then frozen, its slots stay readable until released (their room is never used again), and the next
// reserve makes a file that only its own process has. So there are never two writers, and nothing that the other
// process may still read is overwritten.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tensorpager/transfer/spill_file.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

class FileTier final : public Tier {
 public:
  explicit FileTier(std::string directory);

  Slot reserve(base::Bytes bytes) override;
  void release(const Slot& slot) noexcept override;
  void write(std::span<const std::byte> from, const Slot& slot, base::Bytes at) override;
  void read(const Slot& slot, base::Bytes at, std::span<std::byte> to) override;
  bool may_fail_late() const override { return true; }  // the disk allocates when it is written
  void after_fork() override;
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
