#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "child_process.h"
#include "kernel_limits.h"
#include "page_buffer.h"
#include "temporary_directory.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

Slot store(Tier& tier, Bytes bytes, std::uint64_t seed) {
  const Slot slot = tier.reserve(bytes);
  PageBuffer from(bytes, seed);
  tier.write(from.bytes(), slot, 0_B);
  return slot;
}

bool comes_back(Tier& tier, const Slot& slot, std::uint64_t seed) {
  PageBuffer to(slot.bytes);
  tier.read(slot, 0_B, to.bytes());
  return to.holds(seed);
}

template <class Action>
std::string io_error_of(Action action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FileTier, ShowsNothingInTheDirectory) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot slot = store(*tier, 1_MiB, 1);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_EQ(directory.open_files().size(), 1u);
  tier->release(slot);
}

TEST(FileTier, ClosesItsFileOnExec) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  EXPECT_EQ(fcntl(directory.open_files().at(0), F_GETFD), FD_CLOEXEC);
}

TEST(FileTier, NamesTheDirectoryThatDoesNotExist) {
  const TemporaryDirectory directory;
  EXPECT_EQ(io_error_of([&] { make_file_tier(directory.path() + "/missing"); }),
            "cannot open a spill file in " + directory.path() +
                "/missing (open: No such file or directory); choose another directory with --spill");
}

TEST(FileTier, FailsAtOnceWhereNoFileCanBeMade) {
  // The call that fails depends on whether root asks.
  const std::string error = io_error_of([] { make_file_tier("/proc"); });
  EXPECT_NE(error.find(" a spill file in /proc ("), std::string::npos) << error;
  EXPECT_TRUE(error.ends_with("); choose another directory with --spill")) << error;
}

TEST(FileTier, FailsAtOnceWhereNothingCanBeWritten) {
  const TemporaryDirectory directory;
  const FileSizeLimit limit(0_B);
  EXPECT_EQ(io_error_of([&] { make_file_tier(directory.path()); }),
            "cannot write 4096 bytes to the spill file in " + directory.path() +
                " (pwrite: File too large); free some room there or choose another directory with --spill");
  EXPECT_TRUE(directory.open_files().empty());
}

TEST(FileTier, GoesPastThePageCacheWhereTheFileSystemCan) {
  const TemporaryDirectory directory;
  PageBuffer page(4_KiB, 1);
  const int probe = open((directory.path() + "/probe").c_str(), O_CREAT | O_RDWR | O_DIRECT, 0600);
  const bool has_direct = probe >= 0 && pwrite(probe, page.bytes().data(), 4096, 0) == 4096;
  close(probe);
  const auto tier = make_file_tier(directory.path());
  EXPECT_EQ((fcntl(directory.open_files().at(0), F_GETFL) & O_DIRECT) != 0, has_direct);
}

TEST(FileTier, WorksWithoutDirectIo) {
  const TemporaryDirectory directory;
  ChildProcess child([&] {
    refuse(SYS_fcntl, 1, F_SETFL, EINVAL);
    const auto tier = make_file_tier(directory.path());
    const Slot slot = store(*tier, 1_MiB, 1);
    EXPECT_EQ(fcntl(directory.open_files().at(0), F_GETFL) & O_DIRECT, 0);
    EXPECT_TRUE(comes_back(*tier, slot, 1));
  });
  child.join();
}

TEST(FileTier, WorksAndShowsNothingWithoutNamelessFiles) {
  const TemporaryDirectory directory;
  ChildProcess child([&] {
    refuse(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP);
    const auto tier = make_file_tier(directory.path());
    const Slot slot = store(*tier, 1_MiB, 1);
    EXPECT_TRUE(comes_back(*tier, slot, 1));
    EXPECT_EQ(fcntl(directory.open_files().at(0), F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  });
  child.join();
}

TEST(FileTier, GivesTheDiskItsRoomBackWithTheLastSlot) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const int file = directory.open_files().at(0);
  struct stat status {};
  fstat(file, &status);
  EXPECT_EQ(status.st_blocks, 0) << "left behind by the probe";

  const Slot first = store(*tier, 1_MiB, 1);
  const Slot second = store(*tier, 1_MiB, 2);
  fstat(file, &status);
  EXPECT_GE(status.st_blocks * 512, 2 << 20);
  tier->release(first);
  EXPECT_TRUE(comes_back(*tier, second, 2));
  tier->release(second);
  fstat(file, &status);
  EXPECT_EQ(status.st_blocks, 0);
}

class FullDisk : public testing::TestWithParam<Bytes> {};

// The first byte is refused, or the write stops short and its rest is refused.
TEST_P(FullDisk, LeavesOlderSlotsReadableAndTheTierUsable) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot older = store(*tier, 1_MiB, 1);
  const Slot refused = tier->reserve(64_KiB);
  PageBuffer from(64_KiB, 2);
  {
    const FileSizeLimit limit(GetParam());
    const std::string error = io_error_of([&] { tier->write(from.bytes(), refused, 0_B); });
    EXPECT_EQ(error, "cannot write 65536 bytes to the spill file in " + directory.path() +
                         " (pwrite: File too large); free some room there or choose another directory with --spill");
  }
  EXPECT_TRUE(comes_back(*tier, older, 1));
  EXPECT_TRUE(from.holds(2));
  EXPECT_EQ(tier->reserved(), 1_MiB + 64_KiB);

  tier->write(from.bytes(), refused, 0_B);
  EXPECT_TRUE(comes_back(*tier, refused, 2));
  tier->release(refused);
  tier->release(older);
}

INSTANTIATE_TEST_SUITE_P(Limit, FullDisk, testing::Values(1_MiB, 1_MiB + 8_KiB),
                         [](const auto& instance) { return std::to_string(instance.param.count()); });

TEST(FileTier, SaysThatTheDiskIsFull) {
  const TemporaryDirectory directory;
  if (mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "mounting a small file system needs root: " << std::generic_category().message(errno);
  }
  {
    const auto tier = make_file_tier(directory.path());
    // The mount lives on until its last file is closed.
    EXPECT_EQ(umount2(directory.path().c_str(), MNT_DETACH), 0);
    const Slot older = store(*tier, 512_KiB, 1);
    EXPECT_EQ(io_error_of([&] { store(*tier, 1_MiB, 2); }),
              "cannot write 1048576 bytes to the spill file in " + directory.path() +
                  " (pwrite: No space left on device); free some room there or choose another directory with --spill");
    EXPECT_TRUE(comes_back(*tier, older, 1));
  }
}

TEST(FileTier, KeepsAFrozenFileUntilItsLastSlotIsReleased) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot first = store(*tier, 1_MiB, 1);
  const Slot second = store(*tier, 1_MiB, 2);
  tier->after_fork();
  const Slot third = store(*tier, 1_MiB, 3);
  EXPECT_EQ(directory.open_files().size(), 2u);
  tier->release(first);
  EXPECT_EQ(directory.open_files().size(), 2u);
  EXPECT_TRUE(comes_back(*tier, second, 2));
  tier->release(second);
  EXPECT_EQ(directory.open_files().size(), 1u);
  EXPECT_TRUE(comes_back(*tier, third, 3));
  tier->release(third);
}

TEST(FileTier, MakesNoFileForAProcessThatPagesNothingOut) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  for (int i = 0; i < 3; ++i) tier->after_fork();
  EXPECT_EQ(directory.open_files().size(), 0u);
}

TEST(FileTier, KeepsSlotsReadableWhenNoNewFileCanBeMade) {
  TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot older = store(*tier, 1_MiB, 1);
  tier->after_fork();
  std::filesystem::remove(directory.path());
  EXPECT_TRUE(
      io_error_of([&] { tier->reserve(4_KiB); }).starts_with("cannot open a spill file in " + directory.path()));
  EXPECT_EQ(tier->reserved(), 1_MiB);
  EXPECT_TRUE(comes_back(*tier, older, 1));

  std::filesystem::create_directory(directory.path());
  const Slot newer = store(*tier, 4_KiB, 2);
  EXPECT_TRUE(comes_back(*tier, newer, 2));
  tier->release(older);
  tier->release(newer);
}

TEST(FileTierDeathTest, RefusesToWriteWhereAnotherProcessMayRead) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot older = tier->reserve(4_KiB);
  PageBuffer from(4_KiB, 1);
  tier->after_fork();
  EXPECT_DEATH(tier->write(from.bytes(), older, 0_B), "slot_is_younger_than_the_last_fork");
  tier->release(older);
}

TEST(FileTierDeathTest, RefusesTransfersThatLeaveTheirSlot) {
  const TemporaryDirectory directory;
  const auto tier = make_file_tier(directory.path());
  const Slot slot = tier->reserve(8_KiB);
  PageBuffer memory(8_KiB);
  EXPECT_DEATH(tier->write(memory.bytes(), slot, 4_KiB), "is_valid");
  EXPECT_DEATH(tier->read(slot, 12_KiB, memory.bytes()), "is_valid");
  EXPECT_DEATH(tier->read(slot, 0_B, memory.bytes().subspan(1)), "is_valid");
  tier->release(slot);
}

}  // namespace
}  // namespace tensorpager::transfer
