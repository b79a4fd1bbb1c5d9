#include "tensorpager/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

constexpr mode_t kMode = 0666;  // minus the umask

[[noreturn]] void fail(const char* call, const std::string& path) { throw IoError(call, path, Bytes(0), errno); }

bool is_special(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

/// Returns whether all was written; errno says why not.
bool write_all(int file, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t count = write(file, contents.data(), contents.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    contents.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// `named`: the path that messages show.
void write_to(const std::string& path, std::string_view contents, const std::string& named) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file < 0) fail("write", named);
  const bool is_written = write_all(file, contents);
  const int why = errno;
  const bool is_closed = close(file) == 0;
  if (is_written && is_closed) return;
  if (!is_written) errno = why;
  fail("write", named);
}

/// A temporary file of this process: deleted at the end of its scope, unless it was renamed.
class Draft {
 public:
  explicit Draft(const std::filesystem::path& path)
      : path_(path.parent_path() / ("." + path.filename().string() + "." + std::to_string(getpid()))) {}
  ~Draft() { unlink(path_.c_str()); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

bool write_atomically(const std::string& path, std::string_view contents, Existing existing) {
  if (is_special(path)) {
    write_to(path, contents, path);
    return true;
  }
  const Draft draft(path);
  write_to(draft.path(), contents, path);
  if (existing == Existing::kReplace) {
    if (std::rename(draft.path().c_str(), path.c_str()) != 0) fail("rename", path);
    return true;
  }
  if (link(draft.path().c_str(), path.c_str()) == 0) return true;
  if (errno != EEXIST) fail("link", path);
  return false;
}

}  // namespace tensorpager::base
