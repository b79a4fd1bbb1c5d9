// What `tensorpager run` does in a process that is no Python program: a session from the environment, from before the
// program's own first line to after its last. The counterpart of python/tensorpager/_run.py.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensorpager/api/report.h"
#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/session/session.h"

namespace tensorpager::api {
namespace {

constexpr const char* kOwner = "TENSORPAGER_OWNER";  // process id of the first process of the run that has torch
constexpr int kWrongUsage = 2;

/// Known at the start, for the end: the program may change its environment. Leaked, as exit handlers run late.
struct Run {
  base::Config config;
  pid_t owner;  // 0 where another process is
};
Run* g_run = nullptr;

void at_exit() {
  const session::Session::Report report = session::Session::get().report();
  const bool owner = getpid() == g_run->owner;  // not so in a fork
  std::string path = g_run->config.stats;
  if (!path.empty()) {
    if (!owner) path += "." + std::to_string(getpid());
    try {
      write_statistics(path, report);
    } catch (const base::IoError& error) {
      std::fprintf(stderr, "tensorpager: %s\n", error.what());
    }
  }
  if (owner && !g_run->config.trace.empty()) {
    try {
      const std::string found = session::Session::get().write_trace(g_run->config.trace);
      if (!g_run->config.quiet) std::fprintf(stderr, "tensorpager: %s\n", found.c_str());
    } catch (const base::IoError& error) {
      std::fprintf(stderr, "tensorpager: %s\n", error.what());
    }
  }
  if (owner && !g_run->config.quiet) std::fprintf(stderr, "%s\n", public_report(report).summary().c_str());
}

}  // namespace
}  // namespace tensorpager::api

/// Called once by the preload library, when libtorch is there and has been initialised. A failure is one line and exit
/// code 2.
extern "C" void tensorpager_run_session() {
  using namespace tensorpager;
  const std::string self = std::to_string(getpid());
  try {
    const base::Config config = base::read_config(&std::getenv);
    session::Session::get().enable(config);
    setenv(api::kOwner, self.c_str(), 0);
    api::g_run = new api::Run{config, std::getenv(api::kOwner) == self ? getpid() : 0};
    if (api::g_run->owner == 0) session::Session::get().stop_recording();
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what_without_backtrace());
    _exit(api::kWrongUsage);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what());
    _exit(api::kWrongUsage);
  }
  // Runs after the program's own exit handlers and after the destructors of its static objects.
  std::atexit(&api::at_exit);
}
