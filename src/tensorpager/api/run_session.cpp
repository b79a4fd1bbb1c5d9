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
#include "tensorpager/dry/dry.h"
#include "tensorpager/session/accelerator.h"
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

void say(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "tensorpager: %s\n", text.c_str());
}

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
  if (owner && !g_run->config.quiet) {
    if (g_run->config.dry)
      say(dry::report());
    else
      std::fprintf(stderr, "%s\n", public_report(report).summary().c_str());
  }
}

void say_emulation_at_exit() { say(session::emulation_summary()); }

/// At once: the program's exit handlers and static objects would find it in the middle of an op.
void end_program() {
  at_exit();
  if (session::is_emulation_wanted() && !g_run->config.quiet) say_emulation_at_exit();
  std::fflush(nullptr);
  _exit(0);
}

/// Starts a session from the environment, and what goes with it.
void start_session(const base::Config& config) {
  session::Session& session = session::Session::get();
  session.set_end_of_program(&end_program);
  session.enable(config);
  if (auto* const storages = session.device_storages()) session::watch_device(*storages);
  setenv(kOwner, std::to_string(getpid()).c_str(), 0);
  g_run = new Run{config, std::getenv(kOwner) == std::to_string(getpid()) ? getpid() : 0};
  if (g_run->owner == 0) session.stop_recording();
  // Runs after the program's own exit handlers and after the destructors of its static objects.
  std::atexit(&at_exit);
}

}  // namespace
}  // namespace tensorpager::api

/// Called once by the preload library, when libtorch is there and has been initialised. A failure is one line and exit
/// code 2.
extern "C" void tensorpager_run_session() {
  using namespace tensorpager;
  try {
    const base::Config config = base::read_config(&std::getenv);
    if (session::is_emulation_wanted()) {
      session::install_emulation();
      if (!config.quiet) std::atexit(&api::say_emulation_at_exit);
    }
    const char* const budget = std::getenv("TENSORPAGER_BUDGET");
    if (budget != nullptr && *budget != '\0') api::start_session(config);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what_without_backtrace());
    _exit(api::kWrongUsage);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what());
    _exit(api::kWrongUsage);
  }
}
