// A directory of a test's own, and what this process has open in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tensorpager::transfer {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(testing::TempDir() + "tensorpager-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

  /// Descriptors of files in the directory, those without a name too.
  std::vector<int> open_files() const {
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.starts_with(path_ + "/")) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }

 private:
  std::string path_;
};

}  // namespace tensorpager::transfer
