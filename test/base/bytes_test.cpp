#include "tensorpager/base/bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kWhole = 8_GiB;

struct Size {
  const char* text;
  Bytes bytes;
};

TEST(Bytes, AreRoundedToMultiplesOfAPowerOfTwo) {
  EXPECT_EQ(round_up(5_KiB, 4_KiB), 8_KiB);
  EXPECT_EQ(round_down(7_KiB, 4_KiB), 4_KiB);
  EXPECT_EQ(round_up(8_KiB, 4_KiB), 8_KiB);
  EXPECT_EQ(round_down(8_KiB, 4_KiB), 8_KiB);
  EXPECT_EQ(round_down(3_KiB, 4_KiB), 0_B);
}

TEST(ParseSize, ReadsWhatPeopleWrite) {
  const Size sizes[] = {
      {.text = "1", .bytes = 1_B},
      {.text = "512", .bytes = 512_B},
      {.text = "17 B", .bytes = 17_B},
      {.text = "10 MiB", .bytes = 10_MiB},
      {.text = "1.5GiB", .bytes = 1536_MiB},
      {.text = ".5KiB", .bytes = 512_B},
      {.text = "2tib", .bytes = 2_TiB},
      {.text = "512 KIB", .bytes = 512_KiB},
      {.text = "3kb", .bytes = 3000_B},
      {.text = "2.3GB", .bytes = 2'300'000'000_B},
      {.text = "1.1 MB", .bytes = 1'100'000_B},
      {.text = "1TB", .bytes = 1'000'000'000'000_B},
      // Products that binary fractions miss by less than a byte.
      {.text = "0.001GB", .bytes = 1'000'000_B},
      {.text = "0.063GB", .bytes = 63'000'000_B},
      {.text = "25%", .bytes = 2_GiB},
      {.text = "12.5 %", .bytes = 1_GiB},
      {.text = "Unlimited", .bytes = kUnlimited},
      // More digits than a double holds.
      {.text = "1152921504606846975", .bytes = Bytes(kUnlimited.count() - 1)},
  };
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(parse_size(text, kWhole).count(), bytes.count()) << text;
}

TEST(ParseSize, RejectsEverythingElse) {
  const char* const texts[] = {"",     " ",     "GiB",    "12 parsecs", "-1",          "-5%",
                               "+5",   "0",     "0%",     "0.0GiB",     "nan",         "inf",
                               "1e6",  "0x10",  "5  MiB", " 5MiB",      "5MiB ",       "5 ",
                               "1..5", "1.5.2", "5 MiBs", "%",          "2000000 TiB", "99999999999999999999999999"};
  for (const char* text : texts) EXPECT_THROW(parse_size(text, kWhole), InvalidArgument) << "'" << text << "'";
}

TEST(ParseSize, SaysWhatItWouldAccept) {
  try {
    parse_size("12 parsecs", kWhole);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "'12 parsecs' is not a size; write bytes, KiB/MiB/GiB, KB/MB/GB, N% of the memory or unlimited");
  }
}

TEST(FormatBytes, ShowsThreeDigits) {
  EXPECT_EQ(format_bytes(0_B), "0 B");
  EXPECT_EQ(format_bytes(17_B), "17 B");
  EXPECT_EQ(format_bytes(1023_B), "1023 B");
  EXPECT_EQ(format_bytes(12_KiB), "12.0 KiB");
  EXPECT_EQ(format_bytes(100_MiB), "100 MiB");
  EXPECT_EQ(format_bytes(1536_MiB), "1.50 GiB");
  EXPECT_EQ(format_bytes(3_TiB), "3.00 TiB");
  EXPECT_EQ(format_bytes(2048_TiB), "2.00 PiB");
  EXPECT_EQ(format_bytes(kUnlimited), "unlimited");
}

TEST(FormatBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(format_bytes(1_MiB - 1_B), "1.00 MiB");
  EXPECT_EQ(format_bytes(10_KiB - 1_B), "10.0 KiB");
  EXPECT_EQ(format_bytes(100_KiB - 1_B), "100 KiB");
}

/// A root directory with a process that is in some control groups.
class ControlGroups : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "tensorpager-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }

  std::string root_;
};

TEST_F(ControlGroups, LimitIsTheLowestUpTheTree) {
  write("/proc/self/cgroup", "0::/user/job/step");
  write("/sys/fs/cgroup/user/job/step/memory.max", "max");
  write("/sys/fs/cgroup/user/job/memory.max", "4096");
  write("/sys/fs/cgroup/user/memory.max", "8192");
  EXPECT_EQ(control_group_limit(root_), 4_KiB);
}

TEST_F(ControlGroups, LimitOfTheMountIsSeenFromInsideAContainer) {
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/memory.max", "1073741824");
  EXPECT_EQ(control_group_limit(root_), 1_GiB);
}

TEST_F(ControlGroups, LimitOfVersionOneIsThatOfTheMemoryController) {
  write("/proc/self/cgroup", "5:cpuset:/other\n4:cpu,memory:/docker/1\n0::/");
  write("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "9223372036854771712");
  write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "2097152");
  write("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "4096");
  EXPECT_EQ(control_group_limit(root_), 2_MiB);
}

TEST_F(ControlGroups, LimitIsAbsentWithoutAny) {
  EXPECT_EQ(control_group_limit(root_), kUnlimited);
  write("/proc/self/cgroup", "0::/a\nnonsense");
  write("/sys/fs/cgroup/a/memory.max", "max");
  EXPECT_EQ(control_group_limit(root_), kUnlimited);
}

TEST(PhysicalMemory, IsWhatTheMachineHasAtMost) {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  EXPECT_LE(physical_memory().count(), pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_GT(physical_memory(), 16_MiB);
}

}  // namespace
}  // namespace tensorpager::base
