#include "tensorpager/cli/start_program.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/cli/emulate.h"
#include "tensorpager/cli/python_package.h"
#include "tensorpager/plan/given.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::cli {
namespace {

void export_option(const char* variable, const std::string& value) {
  if (!value.empty()) setenv(variable, value.c_str(), 1);
}

/// Behind what the environment has preloaded already.
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
  // AddressSanitizer refuses to start behind any other library, if it is not told otherwise.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  export_option("ASAN_OPTIONS", std::string("verify_asan_link_order=0:") + (sanitizer != nullptr ? sanitizer : ""));
}

/// A dry run computes little: the threads of its libraries would only spin. What it holds is never read back, so races
/// are none.
void export_dry_run() {
  export_option("TENSORPAGER_DRY", "1");
  export_option("OMP_NUM_THREADS", "1");
  export_option("TENSORPAGER_EMULATE_RACES", "0");
}

void check(const base::Config& config) {
  if (config.spill == "ram") return;
  const std::string directory = config.spill.empty() ? base::default_spill_directory(&std::getenv) : config.spill;
  // Made and dropped at once: an unusable directory is told now, not in the middle of training.
  try {
    transfer::make_file_engine(directory);
  } catch (const base::IoError& error) {
    throw base::InvalidArgument(error.what());
  }
  struct statfs file_system {};
  if (!config.quiet && statfs(directory.c_str(), &file_system) == 0 && file_system.f_type == TMPFS_MAGIC)
    std::fprintf(stderr, "tensorpager: %s is in RAM (tmpfs), so paging out saves none; try --spill on a disk\n",
                 directory.c_str());
}

/// Programs may change the directory.
void export_plans(const RunOptions& options) {
  std::string paths;
  for (const std::string& path : plan::split_paths(options.plan))
    paths += (paths.empty() ? "" : ":") + std::filesystem::absolute(path).string();
  export_option("TENSORPAGER_PLAN", paths);
}

/// Takes away what an earlier run left, so that the first process of this one to end can make the file anew.
void forget_file(const char* path) {
  std::error_code ignored;  // what cannot be removed is told when it cannot be written
  if (path != nullptr && std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
}

}  // namespace

void add_session_options(CLI::App& verb, RunOptions& options) {
  verb.add_option(
      "--spill", options.spill,
      "Where paged-out bytes go: a directory (default: the temporary directory), or ram [TENSORPAGER_SPILL]");
  verb.add_option("--link", options.link,
                  "Move bytes no faster than this, to emulate another machine: 2GB/s, or 2GB/s/4GB/s out and in "
                  "[TENSORPAGER_LINK]");
  verb.add_option("--binding", options.binding,
                  "stable: a tensor keeps its address; rebinding: one arena of exactly the budget, as on a GPU "
                  "[TENSORPAGER_BINDING]");
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

void start_program(const RunOptions& options, const Program& program) {
  if (!options.stats.empty()) export_option("TENSORPAGER_STATS", std::filesystem::absolute(options.stats).string());
  if (!options.spill.empty())
    export_option("TENSORPAGER_SPILL",
                  options.spill == "ram" ? options.spill : std::filesystem::absolute(options.spill).string());
  export_option("TENSORPAGER_EMULATE", options.emulate);
  export_option("TENSORPAGER_BUDGET", options.budget);
  export_option("TENSORPAGER_LINK", options.link);
  export_option("TENSORPAGER_BINDING", options.binding);
  export_option("TENSORPAGER_FUZZ", options.fuzz);
  if (!options.trace.empty()) export_option("TENSORPAGER_TRACE", std::filesystem::absolute(options.trace).string());
  export_option("TENSORPAGER_TRACE_CLASS", options.trace_class);
  if (options.quiet) export_option("TENSORPAGER_QUIET", "1");
  if (options.on_demand) export_option("TENSORPAGER_ON_DEMAND", "1");
  if (options.plan_sync) export_option("TENSORPAGER_PLAN_SYNC", "1");
  if (!options.plan.empty()) export_plans(options);
  if (!options.plan_cache.empty())
    export_option("TENSORPAGER_PLAN_CACHE", std::filesystem::absolute(options.plan_cache).string());
  export_option("TENSORPAGER_TRACE_DEVICE", options.trace_device);
  export_option("TENSORPAGER_TRACE_SMALLEST", options.trace_smallest);
  if (options.dry) export_dry_run();
  // What starts a session asks for a budget; a plan's own holds where none limits.
  if (!is_set("TENSORPAGER_BUDGET") && is_set("TENSORPAGER_PLAN")) export_option("TENSORPAGER_BUDGET", "unlimited");
  const base::Config config = base::read_config(&std::getenv);
  check(config);
  if (!config.plan.empty()) plan::read_plans_of(config);

  const char* inherited = std::getenv("PYTHONPATH");
  std::string path = (python_package() / "hook").string();
  if (inherited != nullptr && *inherited != '\0') path += std::string(":") + inherited;
  export_option("PYTHONPATH", path);
  if (is_set("TENSORPAGER_EMULATE"))
    export_emulation(std::getenv("TENSORPAGER_EMULATE"), options.schedule,
                     options.dry ? CardMemory::kAmple : CardMemory::kOfTheCard);
  preload(config.quiet);
  unsetenv("TENSORPAGER_OWNER");
  unsetenv("TENSORPAGER_OWNER_RANK");
  export_option("TENSORPAGER_RUN", std::to_string(getpid()));
  forget_file(std::getenv("TENSORPAGER_STATS"));
  forget_file(std::getenv("TENSORPAGER_TRACE"));

  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  throw base::InvalidArgument("cannot start '" + program[0] + "': " + std::strerror(error) +
                              "; is it on the PATH, or its virtual environment active?");
}

}  // namespace tensorpager::cli
