#include "tensorpager/session/session.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/dry/dry.h"
#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/device_storages.h"
#include "tensorpager/intercept/foreign.h"
#include "tensorpager/intercept/interceptor.h"
#include "tensorpager/memory/fault_handler.h"
#include "tensorpager/memory/host_memory.h"
#include "tensorpager/memory/torch_storages.h"
#include "tensorpager/replay/capturing.h"
#include "tensorpager/replay/op_rules.h"
#include "tensorpager/replay/replayer.h"
#include "tensorpager/replay/verifier.h"
#include "tensorpager/session/accelerator.h"
#include "tensorpager/session/dry_run.h"
#include "tensorpager/session/system_calls.h"
#include "tensorpager/session/trace_file.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::session {

namespace {

bool g_is_dry = false;

/// From now on this thread's ops are intercepted.
void enter() {
  intercept::enter_thread();
  if (g_is_dry) [[unlikely]]
    dry::enter_thread();
}

}  // namespace

namespace {

/// A trace of a device is recorded beside torch's own allocator; under a budget its memory is ours.
bool pages_a_card(const base::Config& config, base::Bytes budget) {
  return config.device == base::Device::kCuda && budget < base::kUnlimited;
}

/// On a device some of it is workspaces' from the beginning: less than the whole, which may be a power of two, is what
/// lists are divided by.
base::Bytes budget_of_ops(base::Device device, base::Bytes budget) {
  return device == base::Device::kCuda && budget < base::kUnlimited ? budget - base::Bytes(1) : budget;
}

void check(const base::Config& config, base::Bytes budget) {
  if (config.device == base::Device::kCuda && budget == base::kUnlimited && config.trace.empty())
    throw base::InvalidArgument(
        "a CUDA device needs a budget, as its memory is only counted where it is paged; cuda=100% is all of the "
        "device's");
  if (config.dry && config.trace.empty())
    throw base::InvalidArgument("a dry run computes nothing and only writes a trace; use `tensorpager trace --dry`");
  if (config.dry && config.verify_replay)
    throw base::InvalidArgument("a dry run computes nothing that a replay could be compared with");
  if (config.dry && (config.fuzz || config.binding != base::BindingKind::kStable))
    throw base::InvalidArgument("a dry run has no fuzzer and the stable binding, as it holds no bytes");
  if (config.verify_replay && config.fuzz_drops > 0)
    throw base::InvalidArgument("--verify-replay and TENSORPAGER_FUZZ_DROPS are two tests; use one at a time");
  if (pages_a_card(config, budget) && config.verify_replay)
    throw base::InvalidArgument("--verify-replay is for the host's memory only; use --device cpu");
}

guide::Guide::Options guide_options(const base::Config& config, bool plans) {
  guide::Guide::Options options{.plans = plans, .recomputation = config.recomputation(), .waits = config.plan_sync};
  if (!config.plan_cache.empty()) options.cache.emplace(config.plan_cache);
  if (!config.trace.empty()) {
    options.least_ops = trace::Recorder::kMostOps;
    options.pauses = false;
  }
  if (config.device == base::Device::kCuda) options.granule = base::granule_of(config.device);
  if (!config.quiet)
    options.say = [](const std::string& line) { std::fprintf(stderr, "tensorpager: %s\n", line.c_str()); };
  return options;
}

memory::PagedMemory* g_forked = nullptr;
replay::Replayer* g_replayer = nullptr;  // null before the first session that drops
std::atomic<Session*> g_session{nullptr};

// The order of locks is the replayer's, the pager's, then the recipes' and the slabs': a slab takes the pager's lock
// only while it holds none of its own.
void before_fork() {
  if (g_replayer != nullptr) g_replayer->before_fork();
  g_forked->pager().before_fork();
  if (g_replayer != nullptr) g_replayer->lock_recipes();
  g_forked->lock_all();
  for (std::mutex* const lock : intercept::locks_over_forks()) lock->lock();
}
void after_fork_in_parent() {
  for (std::mutex* const lock : intercept::locks_over_forks()) lock->unlock();
  g_forked->unlock_all();
  if (g_replayer != nullptr) g_replayer->unlock_recipes();
  g_forked->pager().after_fork(false);
  if (g_replayer != nullptr) g_replayer->after_fork(false);
}
void after_fork_in_child() {
  for (std::mutex* const lock : intercept::locks_over_forks()) lock->unlock();
  g_forked->reset_locks_in_child();
  if (g_replayer != nullptr) g_replayer->unlock_recipes();
  g_forked->pager().after_fork(true);
  if (g_replayer != nullptr) g_replayer->after_fork(true);
  Session::get().leave_guide();
}

}  // namespace

Session& Session::get() {
  static auto* session = new Session;
  return *session;
}

Session* Session::find() { return g_session.load(std::memory_order_acquire); }

void Session::make_memory(const base::Config& config, base::Bytes budget) {
  const base::Device device = pages_a_card(config, budget) ? base::Device::kCuda : base::Device::kHost;
  if (memory_ != nullptr) {
    if (device != device_of_memory_)
      throw base::InvalidArgument("the device whose memory is paged cannot change within a process; start another one");
    if (device == base::Device::kHost && rebinds() != (config.binding == base::BindingKind::kRebinding))
      throw base::InvalidArgument("the binding cannot change within a process; start another one");
    return;
  }
  device_of_memory_ = device;
  if (device == base::Device::kCuda)
    memory_ = make_card_memory(budget, &enter);
  else
    memory_ = new memory::HostMemory(config, &enter);
  g_forked = memory_;
  intercept::install(pager(), memory_->space(), rebinds() ? &memory::TorchStorages::free_claimed : nullptr,
                     config.device);
  intercept::observe_products(memory_->products_observer());
  memory::set_fault_observer(&intercept::enter_thread);
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  if (device == base::Device::kHost) serve_system_calls(pager(), memory_->space());
  g_session.store(this, std::memory_order_release);
}

void Session::enable(const base::Config& settings) {
  if (active_) throw base::InvalidArgument("Tensorpager is enabled already; call disable() first");
  base::Config config = settings;
  if (!config.share_of_card.empty()) config.budget = base::parse_size(config.share_of_card, size_of_card());
  base::Bytes budget = config.budget;
  std::optional<guide::Profile> user_supplied;
  if (!config.plan.empty()) {
    const std::vector<plan::GivenPlan> read = plan::read_plans_of(config);
    if (budget == base::kUnlimited) budget = plan::budget_of(read);
    user_supplied = guide::profile_of(read);
  }
  intercept::divide_lists_for(config.dry ? std::optional(budget_of_ops(config.device, budget)) : std::nullopt);
  if (config.dry) budget = base::kUnlimited;  // it holds no bytes
  const bool plans = config.plans && budget < base::kUnlimited;
  check(config, budget);
  replay::trust(config.verify_replay_of);
  make_memory(config, budget);
  std::unique_ptr<transfer::Queues> queues = memory_->make_queues(config, budget);
  spill_ = queues->name();
  pager().start({.budget = budget,
                 .fuzz = config.fuzz,
                 .fuzz_evictions = config.fuzz_evictions,
                 .fuzz_drops = config.fuzz_drops,
                 .witness_ops = config.witness_ops,
                 .curve = config.curve},
                std::move(queues));
  serves_faults_ = device_of_memory_ == base::Device::kHost && (!rebinds() || config.fuzz.has_value());
  if (serves_faults_) memory::install_fault_handler(pager());
  intercept::forget_foreign(device_of_memory_ == base::Device::kCuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU);
  trace_class_ = config.trace_class;
  guidance_ = {};
  writes_trace_ = !config.trace.empty();
  if (plans || writes_trace_) {
    guide::Guide::Options options = guide_options(config, plans);
    options.before_replays = [this] { capture(replay::Captures::kPlanned); };
    guide_ = std::make_unique<guide::Guide>(pager(), std::move(options));
    sink_ = &make_sink(config);
    set_sink(config, *sink_);
    if (user_supplied) guide_->activate_user_supplied(std::move(*user_supplied));
  }
  verifies_replay_ = config.verify_replay;
  memory_->install(config);
  intercept::know_purity_by(&replay::purity_of);
  see_calls(config);
  if (config.dry) dry::install({});
  g_is_dry = config.dry;
  enter();
  started_ = base::seconds_now();
  active_ = true;
}

/// What calls the kernels of ops, if it is not the interceptor itself.
void Session::see_calls(const base::Config& config) {
  if (config.verify_replay) {
    replay::start_verifying(memory_->space());
    return intercept::see_calls({.run = &replay::run_verified});
  }
  intercept::see_calls();
  if (config.fuzz && config.fuzz_drops > 0) capture(replay::Captures::kAll);
}

/// From now on calls are captured, so that what they make can be dropped; once in a session.
void Session::capture(replay::Captures captures) {
  if (replayer_ != nullptr) replayer_->recipes().forget_compared();
  if (verifies_replay_ || std::exchange(captures_, true)) return;
  if (replayer_ == nullptr) replayer_ = new replay::Replayer(pager());
  g_replayer = replayer_;
  replay::forget_counts();
  replay::start_capturing(*replayer_, captures, device_of_memory_);
  pager().dropped().set_rebuilder(replayer_);
  intercept::see_calls(replay::capturing_runner(captures));
}

void Session::disable() {
  if (!active_) return;
  last_ = report_now();
  dismiss_guide();
  if (verifies_replay_) replay::stop_verifying();
  pager().end_drops();  // replays need our allocator
  memory_->uninstall();
  pager().stop();
  pager().dropped().set_rebuilder(nullptr);
  captures_ = false;
  intercept::pass_calls_through();
  intercept::leave_thread();
  active_ = false;
}

void Session::enter_thread() {
  enter();
  memory::accept_faults_here();
}

void Session::release_collectives() { intercept::release_finished_collectives(); }

void Session::reinstall_fault_handler() {
  if (active_ && serves_faults_) memory::install_fault_handler(pager());
}

void Session::hint(base::Hint hint) {
  if (wants_steps()) sink_->hint(hint);
}

void Session::name_storage(c10::StorageImpl& storage, const std::string& name) {
  if (device_ != nullptr) {
    if (const auto found = device_->find(storage._mutable_data_ptr_no_checks().get())) names_[found->number] = name;
  } else if (const pager::Block* const block = intercept::find_block(storage)) {
    names_[block->number] = name;
  }
}

void Session::stop_recording() {
  if (std::exchange(writes_trace_, false) && !guide_->plans()) dismiss_guide();
}

void Session::dismiss_guide() {
  if (guide_ == nullptr) return;
  guide_->stop();
  guidance_ = guide_->progress();
  pager().set_sink(nullptr);
  leave_guide();
}

/// The sink that receives events first: the guide, or in a dry run a DryRun before it.
base::EventSink& Session::make_sink(const base::Config& config) {
  if (!config.dry) return *guide_;
  // Leaked, as other threads may be using it.
  return *new DryRun(
      *guide_,
      {.longer = config.dry_longer, .stream = [this] { return guide_->stream(); }, .end = [this] { end_program_(); }});
}

void Session::set_sink(const base::Config& config, base::EventSink& sink) {
  if (config.device == base::Device::kHost || device_of_memory_ == base::Device::kCuda) return pager().set_sink(&sink);
  if (device_ == nullptr)
    device_ = new intercept::DeviceStorages(
        base::granule_of(config.device));  // never freed, as the allocator reports to it for ever
  device_->set_sink(&sink);
  intercept::record_device(device_);
}

void Session::leave_guide() {
  writes_trace_ = false;
  sink_ = nullptr;
  if (device_ != nullptr) device_->set_sink(nullptr);
  static_cast<void>(guide_.release());  // leaked, as other threads may be using it
}

std::string Session::write_trace(const std::string& path) {
  return writes_trace_ ? write_trace_file(guide_->stream(), path, trace_class_, names_) : std::string();
}

Session::Report Session::report_now() {
  release_collectives();
  pager::Statistics counts = pager().accounts().statistics();
  std::vector<std::string> different_ops;
  if (verifies_replay_ || captures_) {
    replay::VerifierCounts verified = replay::verifier_counts();
    counts.replayed_calls = verified.replayed_calls;
    counts.replay_differences = verified.replay_differences;
    different_ops = std::move(verified.different_ops);
  }
  return {.device = device_of_memory_,
          .binding = rebinds() ? "rebinding" : "stable",
          .spill = spill_,
          .counts = counts,
          .guidance = guide_ != nullptr ? guide_->progress() : guidance_,
          .outside_budget_bytes = intercept::foreign_peak_bytes(),
          .wall_seconds = base::seconds_now() - started_,
          .replay_different_ops = std::move(different_ops),
          .curve = pager().accounts().curve()};
}

Session::Report Session::report() { return active_ ? report_now() : last_; }

bool Session::rebinds() const { return memory_->rebinds(); }

pager::Pager& Session::pager() { return memory_->pager(); }

}  // namespace tensorpager::session
