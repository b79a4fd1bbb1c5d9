#include "tensorpager/session/dry_run.h"

#include <algorithm>
#include <utility>

#include "tensorpager/dry/allocation_observer.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::session {
namespace {

/// After so many steps of which no two are equal (sentences of other lengths), equal ones are unlikely to follow.
constexpr std::size_t kMostSteps = 16;

/// The observer identifies blocks by addresses; these need only be distinct.
const void* known_as(std::uint64_t number) { return reinterpret_cast<const void*>(number); }

/// Whether a training step has recurred, or enough windows were seen without that.
bool shows_a_step(const trace::Stream& stream) {
  const std::vector<trace::WindowClass> classes = trace::classify_windows(stream);
  const auto step = trace::find_step(classes, stream);
  if (!step) return false;
  std::size_t windows = 0;
  for (const trace::WindowClass& one : classes) windows += one.windows.size();
  return classes[*step].windows.size() >= 2 || windows >= kMostSteps;
}

}  // namespace

DryRun::DryRun(base::EventSink& recorder, Options options)
    : recorder_(recorder), options_(std::move(options)), latest_(std::chrono::steady_clock::now() + options_.longest) {}

base::EventSink::Ticket DryRun::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  const bool engine_ran = is_in_backward_.exchange(facts.backward, std::memory_order_relaxed) && !facts.backward;
  if (engine_ran && stepped_in_backward_.exchange(false)) count_step();
  const std::uint64_t ops = ops_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ops >= look_at_ops_.load(std::memory_order_relaxed)) {
    look_at_ops_ = ops + ops / 4;
    look(At::kOp);
  }
  return recorder_.op_begins(facts, touched);
}

void DryRun::block_born(Ticket op, const base::NewBlock& block) noexcept {
  if (dry::t_observer != nullptr)
    dry::t_observer->allocated(known_as(block.number), block.size.count(), block.charged.count());
  recorder_.block_born(op, block);
}

void DryRun::block_died(Ticket op, std::uint64_t number) noexcept {
  if (dry::t_observer != nullptr) dry::t_observer->freed(known_as(number));
  recorder_.block_died(op, number);
}

void DryRun::hint(base::Hint hint) noexcept {
  recorder_.hint(hint);
  if (hint == base::Hint::kOptimizerBegins) return;
  if (hint == base::Hint::kOptimizerEnds && is_in_backward_.load(std::memory_order_relaxed))
    stepped_in_backward_ = true;
  else
    count_step();
}

void DryRun::count_step() {
  const std::uint64_t steps = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t ops = ops_.load(std::memory_order_relaxed);
  look_at_ops_ = std::max(kFirstOps, 2 * ops);  // for a program that steps no more
  if (steps < look_at_steps_.load(std::memory_order_relaxed) || (steps < kManySteps && ops < kFirstOps)) return;
  look_at_steps_ = steps + 1 + steps / 8;
  look(At::kStep);
}

void DryRun::look(At at) {
  if (is_looking_.exchange(true)) return;
  const auto now = std::chrono::steady_clock::now();
  bool is_to_end = true;
  if (now < latest_.load() && !has_repeated_ && shows_a_step(options_.stream())) {
    has_repeated_ = true;
    latest_ = std::min(latest_.load(), now + options_.longer);
    // What the program frees when it is ended would belong to the step that has just been seen: one more comes first.
    look_at_steps_ = steps_ + 1;
    is_to_end = at == At::kOp;
  }
  if (is_to_end && now >= latest_.load()) options_.end();
  is_looking_ = false;
}

}  // namespace tensorpager::session
