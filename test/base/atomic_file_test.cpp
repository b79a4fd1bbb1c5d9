#include "tensorpager/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

namespace files = std::filesystem;

class WriteAtomically : public testing::Test {
 protected:
  WriteAtomically() {
    files::remove_all(folder_);
    files::create_directory(folder_);
  }

  ~WriteAtomically() override { files::remove_all(folder_); }

  static std::string read(const files::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(files::directory_iterator(folder_), files::directory_iterator()));
  }

  /// Tests of one program may run at the same time, each in a process of its own.
  const files::path folder_ = testing::TempDir() + "/atomic_file_" + std::to_string(getpid());
  const std::string path_ = folder_ / "stats.json";
};

TEST_F(WriteAtomically, ReplacesAFileAndLeavesNothingBesideIt) {
  EXPECT_TRUE(write_atomically(path_, "first", Existing::kReplace));
  EXPECT_TRUE(write_atomically(path_, "second", Existing::kReplace));
  EXPECT_EQ(read(path_), "second");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(WriteAtomically, KeepsAFileThatIsThereAndSaysSo) {
  EXPECT_TRUE(write_atomically(path_, "first", Existing::kKeep));
  EXPECT_FALSE(write_atomically(path_, "second", Existing::kKeep));
  EXPECT_EQ(read(path_), "first");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(WriteAtomically, NeverShowsAPart) {
  const std::string all(std::size_t{8} << 20, 'x');
  bool saw_a_part = false;
  std::thread writer([&] { write_atomically(path_, all, Existing::kReplace); });
  while (!files::exists(path_)) std::this_thread::yield();
  saw_a_part = files::file_size(path_) != all.size();
  writer.join();
  EXPECT_FALSE(saw_a_part);
}

TEST_F(WriteAtomically, WritesToAPipeItself) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read(path_); });
  EXPECT_TRUE(write_atomically(path_, "through", Existing::kKeep));
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(files::is_fifo(path_));
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(WriteAtomically, ThrowsWhatTheSystemSaysAndNamesThePath) {
  const std::string missing = folder_ / "missing" / "stats.json";
  try {
    write_atomically(missing, "text", Existing::kReplace);
    FAIL() << "it was written";
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_EQ(std::string(error.what()), "cannot write " + missing + " (write: No such file or directory)");
  }
  EXPECT_THROW(write_atomically(folder_, "text", Existing::kReplace), IoError);  // a directory
  EXPECT_EQ(files_in_folder(), 0u);
}

}  // namespace
}  // namespace tensorpager::base
