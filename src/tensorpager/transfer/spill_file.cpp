#include "tensorpager/transfer/spill_file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "tensorpager/base/blocked_signals.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;
using base::IoError;

constexpr const char* kAdviceToMake = "choose another directory with --spill";
constexpr const char* kAdviceForRoom = "free some room there or choose another directory with --spill";

/// A file that no name leads to, so that it vanishes with its last descriptor, however the processes end.
int open_unlinked(const std::string& directory) {
  int descriptor = ::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
  // File systems without O_TMPFILE answer EOPNOTSUPP; some answer as if it were a plain open of a directory.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
    throw IoError("open", "a spill file in " + directory, Bytes(0), errno, kAdviceToMake);
  }
  std::string path = directory + "/tensorpager-XXXXXX";
  const base::BlockedSignals blocked;  // one that ends the process between the two calls would leave an empty file
  descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) throw IoError("mkstemp", "a spill file in " + directory, Bytes(0), errno, kAdviceToMake);
  ::unlink(path.c_str());
  return descriptor;
}

}  // namespace

SpillFile::SpillFile(const std::string& directory) : directory_(directory), descriptor_(open_unlinked(directory)) {
  try {
    enable_direct_io();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SpillFile::~SpillFile() { ::close(descriptor_); }

/// Some file systems accept the flag and refuse the transfer, so one page is written and read for real.
void SpillFile::enable_direct_io() {
  struct alignas(base::kPage.count()) Page {
    std::byte bytes[base::kPage.count()] = {};
  };
  const int flags = ::fcntl(descriptor_, F_GETFL);
  direct_ = ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
  const auto page = std::make_unique<Page>();
  for (;;) {
    try {
      write(page->bytes, 0);
      read(0, page->bytes);
      truncate();
      return;
    } catch (const IoError&) {
      if (!direct_) throw;
      ::fcntl(descriptor_, F_SETFL, flags);
      direct_ = false;
    }
  }
}

std::uint64_t SpillFile::reserve(Bytes bytes) {
  const auto offset = space_.take(bytes);
  if (!offset) throw IoError("reserve", "the spill file in " + directory_, bytes, EFBIG, kAdviceForRoom);
  return *offset;
}

/// Calls `call(done)` until `size` bytes are moved. `error_when_stuck` is what it means when a call moves nothing and
/// names no error: a full disk for writes, a file that somebody cut for reads.
template <class Call>
void SpillFile::transfer_all(const char* name, Call call, std::size_t size, int error_when_stuck) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t moved = call(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      const int error = moved < 0 ? errno : error_when_stuck;
      throw IoError(name, "the spill file in " + directory_, Bytes(size), error, kAdviceForRoom);
    }
    // A short transfer under direct I/O ends at a sector, so the rest is aligned enough to go on.
    done += static_cast<std::size_t>(moved);
  }
}

void SpillFile::write(std::span<const std::byte> from, std::uint64_t offset) const {
  const auto call = [&](std::size_t done) {
    return ::pwrite(descriptor_, from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
  };
  transfer_all("pwrite", call, from.size(), ENOSPC);
}

void SpillFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const auto call = [&](std::size_t done) {
    return ::pread(descriptor_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
  };
  transfer_all("pread", call, to.size(), EIO);
}

void SpillFile::truncate() const noexcept {
  // A failure loses nothing: the blocks are used again by later page-outs, or go with the file.
  std::ignore = ::ftruncate(descriptor_, 0);
}

}  // namespace tensorpager::transfer
