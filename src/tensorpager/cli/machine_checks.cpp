#include "tensorpager/cli/machine_checks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/transfer/spill_file.h"

namespace tensorpager::cli {
namespace {

using base::Bytes;
using base::format_bytes;

constexpr std::uint64_t kUsualMappings = 65530;       // Linux' default of vm.max_map_count
constexpr Bytes kLittleRoom{std::uint64_t{1} << 30};  // a spill directory with less than this is likely a mistake

rlim_t soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit.rlim_cur;
}

std::string text_of_limit(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : format_bytes(Bytes(limit)); }

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// A figure of /proc/meminfo.
Bytes memory_figure(const std::string& root, std::string_view name) {
  std::ifstream file(root + "/proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == name) file >> kib;
  return Bytes(kib << 10);
}

/// Whether the file system has files without a name (O_TMPFILE); on others the spill file has a name between two calls.
bool has_nameless_files(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

bool is_in_ram(const std::string& directory) {
  struct statfs file_system {};
  return statfs(directory.c_str(), &file_system) == 0 &&
         (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC);
}

}  // namespace

const char* to_string(Verdict verdict) {
  constexpr std::array kTexts = {"ok", "warning", "not possible"};
  return kTexts[static_cast<std::size_t>(verdict)];
}

Finding check_kernel(std::string_view release, std::string_view machine) {
  Finding finding{.name = "kernel", .found = std::string(release) + " on " + std::string(machine)};
  int major = 0, minor = 0;
  std::sscanf(std::string(release).c_str(), "%d.%d", &major, &minor);
  const auto is_before = [&](int other_major, int other_minor) {
    return major < other_major || (major == other_major && minor < other_minor);
  };
  if (is_before(5, 7)) {
    finding.verdict = Verdict::kNotPossible;
    finding.advice = "pages cannot be moved before Linux 5.7; a newer kernel is needed";
  } else if (is_before(5, 14)) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "fresh pages cost more before Linux 5.14";
  } else if (machine != "x86_64") {
    finding.verdict = Verdict::kWarning;
    finding.advice = "only x86-64 is tested";
  }
  return finding;
}

Finding check_memory(const std::string& root) {
  const Bytes limit = base::control_group_limit(root);
  const Bytes total = memory_figure(root, "MemTotal:");
  Finding finding{.name = "memory",
                  .found = format_bytes(total) + ", of which " + format_bytes(memory_figure(root, "MemAvailable:")) +
                           " available; "};
  finding.found += limit < total ? "the control group allows " + format_bytes(limit) : "no limit by a control group";
  return finding;
}

Finding check_addresses() {
  Finding finding{.name = "addresses", .found = "limit " + text_of_limit(soft_limit(RLIMIT_AS))};
  try {
    const arena::AddressSpace reserved;
  } catch (const base::IoError& error) {
    finding.verdict = Verdict::kNotPossible;
    finding.found += "; 1 TiB cannot be reserved (" + std::generic_category().message(error.error_number()) + ")";
    finding.advice = "ulimit -v unlimited; reserved addresses take no memory";
  }
  return finding;
}

Finding check_data_limit() {
  const rlim_t limit = soft_limit(RLIMIT_DATA);
  Finding finding{.name = "data", .found = "limit " + text_of_limit(limit)};
  if (limit != RLIM_INFINITY) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "the budget, torch and Python must fit in together; else ulimit -d unlimited";
  }
  return finding;
}

Finding check_mappings(const std::string& root, std::uint64_t in_use) {
  std::uint64_t limit = 0;
  std::ifstream(root + "/proc/sys/vm/max_map_count") >> limit;
  if (limit == 0) limit = kUsualMappings;
  Finding finding{.name = "mappings", .found = "limit " + std::to_string(limit)};
  if (in_use != 0) finding.found += ", a Python with torch has " + std::to_string(in_use);
  const std::string raise = "as root: sysctl vm.max_map_count=" + std::to_string(16 * kUsualMappings);
  if (in_use > limit - limit / 10) {
    finding.verdict = Verdict::kNotPossible;
    finding.advice = "no page-out would be made; " + raise;
  } else if (limit < kUsualMappings) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "many small tensors will need more; " + raise;
  }
  return finding;
}

Finding check_huge_pages(const std::string& root) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string modes = first_line(root + path);
  Finding finding{.name = "huge-pages", .found = modes.empty() ? "none" : modes};
  if (modes.empty() || modes.find("[never]") != std::string::npos) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "paging large tensors costs more; as root: echo madvise > " + path;
  }
  return finding;
}

Finding check_locked_memory() {
  return {.name = "memlock", .found = "limit " + text_of_limit(soft_limit(RLIMIT_MEMLOCK)) + "; none is locked"};
}

Finding check_spill(const std::string& where) {
  Finding finding{.name = "spill", .verdict = Verdict::kWarning};
  if (where == "ram") {
    finding.found = "RAM";
    finding.advice = "it saves nothing; give --spill a directory on a disk";
    return finding;
  }
  const std::string absolute = std::filesystem::absolute(where).lexically_normal().string();
  finding.found = absolute;
  try {
    const transfer::SpillFile file(absolute);
    const bool direct = file.is_direct(), nameless = has_nameless_files(absolute);
    struct statvfs space {};
    statvfs(absolute.c_str(), &space);
    const Bytes room(space.f_bavail * space.f_frsize);
    const rlim_t file_limit = soft_limit(RLIMIT_FSIZE);
    finding.found += ": " + format_bytes(room) + " free, " + (direct ? "direct I/O" : "no direct I/O") + ", " +
                     (nameless ? "files without a name" : "no files without a name");
    if (is_in_ram(absolute)) {
      finding.found += ", in RAM";
      finding.advice = "it saves nothing; give --spill a directory on a disk";
    } else if (file_limit != RLIM_INFINITY) {
      finding.found += ", files limited to " + text_of_limit(file_limit);
      finding.advice = "ulimit -f unlimited";
    } else if (room < kLittleRoom) {
      finding.advice = "it must hold what the program needs beyond the budget; free some room or choose another";
    } else if (!direct) {
      finding.advice = "the file system keeps what is written in memory for a while; choose another where that matters";
    } else {
      finding.verdict = Verdict::kOk;
    }
  } catch (const base::IoError& error) {
    finding.verdict = Verdict::kNotPossible;
    const std::string text = error.what();
    finding.found = text.substr(0, text.rfind("; "));
    finding.advice = text.substr(std::min(text.size(), text.rfind("; ") + 2));
  }
  return finding;
}

namespace {

/// The version in what NVIDIA's driver says of itself, as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15";
/// empty if there is none.
std::string driver_version(const std::string& root) {
  std::ifstream said(root + "/proc/driver/nvidia/version");
  for (std::string word; said >> word;)
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0 && word.find('.') != std::string::npos) return word;
  return {};
}

}  // namespace

Finding check_gpus(const std::string& root, std::uint64_t by_torch) {
  std::error_code none;
  const auto driver = std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", none);
  const auto count = none ? 0 : std::distance(begin(driver), end(driver));
  Finding finding{.name = "gpus", .found = count == 0 ? "none, and none is needed" : std::to_string(count)};
  if (const std::string version = driver_version(root); !version.empty()) finding.found += ", driver " + version;
  if (count != 0) finding.found += ", torch can use " + std::to_string(by_torch);
  if (count != 0 && by_torch == 0) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "a torch with CUDA, and a driver that is new enough for it: programs run on the CPU";
  }
  return finding;
}

}  // namespace tensorpager::cli
