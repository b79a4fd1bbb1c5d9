// What doctor says of a machine, on machines made of a few files.
#include "tensorpager/cli/machine_checks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "../transfer/child_process.h"
#include "../transfer/kernel_limits.h"
#include "../transfer/temporary_directory.h"

namespace tensorpager::cli {
namespace {

using transfer::ChildProcess;
using transfer::TemporaryDirectory;

/// A directory that stands for /.
class Machine {
 public:
  Machine& with(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  std::string root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

void set_soft_limit(__rlimit_resource resource, rlim_t value) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(resource, &limit), 0);
  limit.rlim_cur = value;
  ASSERT_EQ(setrlimit(resource, &limit), 0);
}

TEST(KernelCheck, KnowsWhatEachReleaseBrought) {
  EXPECT_EQ(check_kernel("6.1.0-18-amd64", "x86_64").verdict, Verdict::kOk);
  EXPECT_EQ(check_kernel("5.14.0", "x86_64").verdict, Verdict::kOk);
  EXPECT_EQ(check_kernel("5.13.19", "x86_64").verdict, Verdict::kWarning);
  EXPECT_EQ(check_kernel("5.7.0", "x86_64").verdict, Verdict::kWarning);
  EXPECT_EQ(check_kernel("5.6.19", "x86_64").verdict, Verdict::kNotPossible);
  EXPECT_EQ(check_kernel("4.19.0", "x86_64").verdict, Verdict::kNotPossible);
  EXPECT_EQ(check_kernel("6.1.0", "aarch64").verdict, Verdict::kWarning);
}

TEST(MemoryCheck, SaysWhatAControlGroupOfEitherVersionAllows) {
  Machine machine;
  machine.with("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 5 kB\nMemAvailable:  4194304 kB\n");
  EXPECT_EQ(check_memory(machine.root()).found, "8.00 GiB, of which 4.00 GiB available; no limit by a control group");
  machine.with("/proc/self/cgroup", "0::/job\n").with("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  EXPECT_EQ(check_memory(machine.root()).found,
            "8.00 GiB, of which 4.00 GiB available; the control group allows 1.00 GiB");
  machine.with("/proc/self/cgroup", "4:cpu,memory:/job\n")
      .with("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(check_memory(machine.root()).found,
            "8.00 GiB, of which 4.00 GiB available; the control group allows 2.00 GiB");
}

TEST(AddressCheck, IsNotPossibleUnderALimitOfAddresses) {
  EXPECT_EQ(check_addresses().verdict, Verdict::kOk);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more addresses themselves
  ChildProcess child([] {
    set_soft_limit(RLIMIT_AS, rlim_t{1} << 33);
    const Finding finding = check_addresses();
    EXPECT_EQ(finding.verdict, Verdict::kNotPossible);
    EXPECT_EQ(finding.found, "limit 8.00 GiB; 1 TiB cannot be reserved (Cannot allocate memory)");
  });
  child.join();
#endif
}

TEST(DataCheck, WarnsOfALimit) {
  EXPECT_EQ(check_data_limit().verdict, Verdict::kOk);
  ChildProcess child([] {
    set_soft_limit(RLIMIT_DATA, rlim_t{1} << 33);
    EXPECT_EQ(check_data_limit().verdict, Verdict::kWarning);
    EXPECT_EQ(check_data_limit().found, "limit 8.00 GiB");
  });
  child.join();
}

TEST(MappingCheck, ComparesTheLimitWithWhatAPythonHas) {
  Machine machine;
  machine.with("/proc/sys/vm/max_map_count", "1000\n");
  EXPECT_EQ(check_mappings(machine.root(), 0).verdict, Verdict::kWarning);
  EXPECT_EQ(check_mappings(machine.root(), 900).verdict, Verdict::kWarning);
  EXPECT_EQ(check_mappings(machine.root(), 901).verdict, Verdict::kNotPossible);
  machine.with("/proc/sys/vm/max_map_count", "1048576\n");
  EXPECT_EQ(check_mappings(machine.root(), 901).verdict, Verdict::kOk);
  EXPECT_EQ(check_mappings(machine.root(), 901).found, "limit 1048576, a Python with torch has 901");
}

TEST(HugePageCheck, WarnsWhereThereAreNone) {
  Machine machine;
  EXPECT_EQ(check_huge_pages(machine.root()).verdict, Verdict::kWarning);
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  EXPECT_EQ(check_huge_pages(machine.with(path, "always madvise [never]\n").root()).verdict, Verdict::kWarning);
  EXPECT_EQ(check_huge_pages(machine.with(path, "always [madvise] never\n").root()).verdict, Verdict::kOk);
  EXPECT_EQ(check_huge_pages(machine.with(path, "[always] madvise never\n").root()).verdict, Verdict::kOk);
}

TEST(GpuCheck, WarnsOfThoseThatTorchCannotUse) {
  Machine machine;
  EXPECT_EQ(check_gpus(machine.root(), 0).found, "none, and none is needed");
  machine.with("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
  EXPECT_EQ(check_gpus(machine.root(), 0).verdict, Verdict::kWarning);
  EXPECT_EQ(check_gpus(machine.root(), 1).verdict, Verdict::kOk);
  EXPECT_EQ(check_gpus(machine.root(), 1).found, "1, torch can use 1");
  const std::string module = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n";
  machine.with("/proc/driver/nvidia/version", module + "GCC version:  gcc version 12.2.0\n");
  EXPECT_EQ(check_gpus(machine.root(), 1).found, "1, driver 550.54.15, torch can use 1");
}

TEST(SpillCheck, SaysWhatAnUnusableDirectoryLacks) {
  const TemporaryDirectory directory;
  const Finding finding = check_spill(directory.path() + "/missing");
  EXPECT_EQ(finding.verdict, Verdict::kNotPossible);
  EXPECT_EQ(finding.found,
            "cannot open a spill file in " + directory.path() + "/missing (open: No such file or directory)");
  EXPECT_EQ(finding.advice, "choose another directory with --spill");
}

TEST(SpillCheck, LeavesTheDirectoryEmptyAndWarnsOfRam) {
  const TemporaryDirectory directory;
  EXPECT_NE(check_spill(directory.path()).verdict, Verdict::kNotPossible);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_EQ(check_spill("ram").verdict, Verdict::kWarning);
  EXPECT_NE(check_spill("/dev/shm").verdict, Verdict::kOk);
}

TEST(SpillCheck, WarnsWhereFilesAreLimited) {
  const TemporaryDirectory directory;
  const transfer::FileSizeLimit limit(base::Bytes(1 << 20));
  const Finding finding = check_spill(directory.path());
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_NE(finding.found.find("1.00 MiB"), std::string::npos);
}

TEST(SpillCheck, SeesWhetherFilesNeedAName) {
  const TemporaryDirectory directory;
  ChildProcess child([&] {
    transfer::refuse(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP);
    EXPECT_NE(check_spill(directory.path()).found.find("no files without a name"), std::string::npos);
  });
  child.join();
}

}  // namespace
}  // namespace tensorpager::cli
