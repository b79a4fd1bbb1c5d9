// What `tensorpager run` does in a process that is not a Python program: a session from the environment, which begins
// before the program's first line and ends after its last. The counterpart of python/tensorpager/_run.py.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensorpager/base/config.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/dry/dry.h"
#include "tensorpager/session/accelerator.h"
#include "tensorpager/session/exit_line.h"
#include "tensorpager/session/session.h"
#include "tensorpager/session/statistics_file.h"

namespace tensorpager::api {
namespace {

constexpr const char* kOwner = "TENSORPAGER_OWNER";  // process id of the first process of the run that has torch
constexpr const char* kOwnerRank = "TENSORPAGER_OWNER_RANK";  // rank of that process
constexpr int kWrongUsage = 2;

/// Saved at the start, as the program may change its environment. Leaked, as exit handlers run late.
struct Run {
  base::Config config;
  std::string rank;  // rank that torchrun gave this process; empty if torchrun did not start it
  pid_t owner;       // process id of this process if it is the first; else 0
};
Run* g_run = nullptr;

void say(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "tensorpager: %s\n", text.c_str());
}

std::string text_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

/// Whether this process is the first of its run: none of its parents had torch, or torchrun made it a rank of its own.
/// As `_children.join` in Python.
bool is_first(const std::string& rank) {
  const std::string owner = text_of(kOwner);
  const std::string id = owner.substr(0, owner.find('/'));
  return id.empty() || id == std::to_string(getpid()) || text_of(kOwnerRank) != rank;
}

std::string of_rank(const std::string& path) { return g_run->rank.empty() ? path : path + ".rank" + g_run->rank; }

void write_statistics(const session::Session::Report& report, bool is_owner) {
  const std::string& path = g_run->config.stats;
  if (path.empty()) return;
  session::write_statistics(
      report, {.path = is_owner ? of_rank(path) : path + "." + std::to_string(getpid()), .is_of_first = is_owner});
}

void write_trace() {
  if (g_run->config.trace.empty()) return;
  const std::string found = session::Session::get().write_trace(of_rank(g_run->config.trace));
  if (!g_run->config.quiet) say(found);
}

void at_exit() {
  const session::Session::Report report = session::Session::get().report();
  const bool is_owner = getpid() == g_run->owner;  // false in a forked child
  const auto attempt = [](auto&& write) {
    try {
      write();
    } catch (const base::IoError& error) {
      say(error.what());
    }
  };
  attempt([&] { write_statistics(report, is_owner); });
  if (!is_owner) return;
  attempt(&write_trace);
  if (g_run->config.quiet) return;
  if (g_run->config.dry)
    say(dry::report());
  else
    say(session::exit_line({.counts = report.counts,
                            .outside_budget_bytes = report.outside_budget_bytes,
                            .wall_seconds = report.wall_seconds,
                            .rank = g_run->rank}));
}

void say_emulation_at_exit() { say(session::emulation_summary()); }

/// Ends the process at once: exit handlers and destructors of static objects would run in the middle of an op.
void end_program() {
  at_exit();
  if (session::is_emulation_wanted() && !g_run->config.quiet) say_emulation_at_exit();
  std::fflush(nullptr);
  _exit(0);
}

/// Starts a session from the environment, and has its results written at exit.
void start_session(const base::Config& config) {
  session::Session& session = session::Session::get();
  session.set_end_of_program(&end_program);
  session.enable(config);
  if (auto* const storages = session.device_storages()) session::watch_device(*storages);
  const std::string rank = text_of("LOCAL_WORLD_SIZE").empty() ? "" : text_of("RANK");
  g_run = new Run{.config = config, .rank = rank, .owner = is_first(rank) ? getpid() : 0};
  if (g_run->owner != 0) {
    setenv(kOwner, std::to_string(g_run->owner).c_str(), 1);
    setenv(kOwnerRank, rank.c_str(), 1);
  } else {
    session.stop_recording();
  }
  // Runs after the program's own exit handlers and after the destructors of its static objects.
  std::atexit(&at_exit);
}

}  // namespace
}  // namespace tensorpager::api

/// Called once by the preload library, when libtorch is loaded and initialised. On failure it prints one line and exits
/// with code 2.
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
