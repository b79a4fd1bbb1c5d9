// The World that a process has, from its environment.
#include <pthread.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tensorpager/base/errors.h"
#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::fake_cuda {
namespace {

std::atomic<World*> process_world{nullptr};
std::atomic<bool> forked{false};

void after_fork_in_child() {
  if (process_world.load()) forked = true;
}

/// What kernels use is destroyed by exit handlers that were registered before.
void at_exit() {
  if (World* world = World::find(); world && !World::is_forked_child()) world->queues().close();
}

World* make_world() {
  World* world = nullptr;
  try {
    world = new World(read_options());
    if (const char* failures = std::getenv("TENSORPAGER_EMULATE_FAIL")) world->failures().fail_all(failures);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what());
    std::abort();
  }
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  std::atexit(at_exit);
  return world;
}

}  // namespace

WorldOptions read_options() {
  const auto read = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value ? std::string(value) : std::string();
  };
  WorldOptions options;
  options.card = parse_card(read("TENSORPAGER_CARD"));
  if (const std::string seed = read("TENSORPAGER_EMULATE_SEED"); !seed.empty()) options.schedule = seed;
  options.races = read("TENSORPAGER_EMULATE_RACES") != "0";
  if (const std::string clock = read("TENSORPAGER_EMULATE_CLOCK"); clock == "card")
    options.speeds = parse_speeds(read("TENSORPAGER_EMULATE_SPEEDS"));
  else if (!clock.empty() && clock != "cpu")
    throw base::InvalidArgument("TENSORPAGER_EMULATE_CLOCK=" + clock + " is wrong; try cpu or card");
  const std::string delay = read("TENSORPAGER_EMULATE_DELAY_US");
  const auto [end, error] = std::from_chars(delay.data(), delay.data() + delay.size(), options.delay_us);
  if (!delay.empty() && (error != std::errc() || end != delay.data() + delay.size() || options.delay_us < 0))
    throw base::InvalidArgument("TENSORPAGER_EMULATE_DELAY_US=" + delay + " is wrong; try a number of microseconds");
  return options;
}

World& World::get() {
  if (World* world = find()) return *world;
  static std::once_flag once;
  std::call_once(once, [] { process_world = make_world(); });
  return *process_world.load();
}

World* World::find() { return process_world.load(std::memory_order_acquire); }

bool World::is_forked_child() { return forked.load(std::memory_order_relaxed); }

}  // namespace tensorpager::fake_cuda
