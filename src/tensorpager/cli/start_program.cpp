#include "tensorpager/cli/start_program.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/cli/emulate.h"
#include "tensorpager/cli/python_package.h"
#include "tensorpager/plan/given.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::cli {
namespace {

void export_text(const char* variable, const std::string& text) { setenv(variable, text.c_str(), 1); }

/// Appends the preload library to LD_PRELOAD.
void preload(bool quiet) {
  const std::string library = python_package() / "lib" / "libtensorpager_preload.so";
  if (!std::filesystem::exists(library))
    throw base::InvalidArgument("the preload library is missing at " + library + "; run `make build`");
  if (library.find_first_of(" :") != std::string::npos) {
    if (!quiet)
      std::fprintf(stderr,
                   "tensorpager: only Python programs will be paged, as a path with a space or a colon cannot be "
                   "preloaded: %s; install elsewhere\n",
                   library.c_str());
    return;
  }
  add_preload(library);
  // AddressSanitizer refuses to start if another library comes first, unless this option is set.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  export_text("ASAN_OPTIONS", std::string("verify_asan_link_order=0:") + (sanitizer != nullptr ? sanitizer : ""));
}

/// A dry run computes little: threads of its libraries would only spin. Its bytes are never read back, so races do not
/// matter.
void keep_dry_run_cheap() {
  export_text("OMP_NUM_THREADS", "1");
  export_text("TENSORPAGER_EMULATE_RACES", "0");
}

void check(const base::Config& config) {
  if (config.spill == "ram") return;
  const std::string directory = config.spill.empty() ? base::default_spill_directory(&std::getenv) : config.spill;
  // Makes a tier and drops it, so that an unusable directory is reported now and not in the middle of training.
  try {
    transfer::make_file_tier(directory);
  } catch (const base::IoError& error) {
    throw base::InvalidArgument(error.what());
  }
  struct statfs file_system {};
  if (!config.quiet && statfs(directory.c_str(), &file_system) == 0 && file_system.f_type == TMPFS_MAGIC)
    std::fprintf(stderr, "tensorpager: %s is in RAM (tmpfs), so paging out saves none; try --spill on a disk\n",
                 directory.c_str());
}

/// Removes the file of an earlier run, so that the first process of this run to end can create it.
void forget_file(const char* path) {
  std::error_code ignored;  // a file that cannot be removed is reported when it cannot be written
  if (path != nullptr && std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
}

base::InvalidArgument cannot_start(const std::string& program, int error) {
  return base::InvalidArgument("cannot start '" + program + "': " + std::strerror(error) +
                               "; is it on the PATH, or its virtual environment active?");
}

void require_program(const std::string& name) {
  int error = ENOENT;
  const auto may_run = [&error](const std::filesystem::path& file) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return false;
    error = EACCES;
    return access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file, ignored);
  };
  if (name.find('/') != std::string::npos) {
    if (may_run(name)) return;
  } else {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (may_run(std::filesystem::path(folder.empty() ? "." : folder) / name)) return;
  }
  throw cannot_start(name, error);
}

}  // namespace

void prepare_program(const Settings& settings, const Program& program) {
  export_settings(settings);
  const auto dry = settings.find("TENSORPAGER_DRY");
  const bool is_dry = dry != settings.end() && dry->second == "1";
  if (is_dry) keep_dry_run_cheap();
  // A session only starts if the budget's variable is set; unlimited means that the budget of the plan applies.
  if (!is_set("TENSORPAGER_BUDGET") && is_set("TENSORPAGER_PLAN")) export_text("TENSORPAGER_BUDGET", "unlimited");
  const base::Config config = base::read_config(&std::getenv);
  check(config);
  if (!config.plan.empty()) plan::read_plans_of(config);

  const char* inherited = std::getenv("PYTHONPATH");
  std::string path = (python_package() / "hook").string();
  if (inherited != nullptr && *inherited != '\0') path += std::string(":") + inherited;
  export_text("PYTHONPATH", path);
  if (is_set("TENSORPAGER_EMULATE"))
    export_emulation(std::getenv("TENSORPAGER_EMULATE"), is_dry ? CardMemory::kAmple : CardMemory::kOfTheCard);
  preload(config.quiet);
  unsetenv("TENSORPAGER_OWNER");
  unsetenv("TENSORPAGER_OWNER_RANK");
  export_text("TENSORPAGER_RUN", std::to_string(getpid()));
  require_program(program[0]);
}

void execute_program(const Program& program) {
  forget_file(std::getenv("TENSORPAGER_STATS"));
  forget_file(std::getenv("TENSORPAGER_TRACE"));

  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw cannot_start(program[0], errno);
}

void start_program(const Settings& settings, const Program& program) {
  prepare_program(settings, program);
  execute_program(program);
}

}  // namespace tensorpager::cli
