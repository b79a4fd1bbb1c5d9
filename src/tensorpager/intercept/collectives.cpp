#include "tensorpager/intercept/collectives.h"

#include <pthread.h>
#include <torch/custom_class.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tensorpager/base/clock.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/key.h"

namespace tensorpager::intercept {

std::atomic<std::size_t> g_under_way_count{0};

namespace {

constexpr double kPatience = 30;  // seconds: a slow peer's step, and less than a user takes for a hang
constexpr auto kPollInterval = std::chrono::microseconds(200);

/// A collective under way, and the export pins that it holds.
struct UnderWay {
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<pager::Block*> blocks;

  /// Whether a thread of the process group completes it. Gloo's messages are completed by the thread that waits for
  /// them; its reduce_scatter, of no known type, does its last part there and never says that it is completed.
  bool goes_on_by_itself() const {
    const c10d::OpType type = work->retrieveOpType();
    return type != c10d::OpType::SEND && type != c10d::OpType::RECV && type != c10d::OpType::RECVANYSOURCE &&
           type != c10d::OpType::UNKNOWN;
  }
  /// A collective that does not report completion is over when the program has dropped its Work.
  bool is_over() const { return work->isCompleted() || (!goes_on_by_itself() && work.use_count() == 1); }
};

std::mutex g_collectives_mutex;
auto& g_under_way = *new std::vector<UnderWay>;  // never destroyed: exit handlers may still run ops
std::atomic<std::size_t> g_going_on_count{0};    // of these, those that go on by themselves

void pin(const std::byte* data, std::vector<pager::Block*>& blocks) {
  if (pager::Block* block = g_target.pager->outside().pin_export(data)) blocks.push_back(block);
}

void unpin(const std::vector<pager::Block*>& blocks) {
  for (pager::Block* block : blocks) g_target.pager->outside().unpin_export(*block);
}

c10::intrusive_ptr<c10d::Work> find_work(const c10::IValue& value) {
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements())
      if (auto work = find_work(element)) return work;
  } else if (value.isObject()) {
    static const auto work_type = c10::getCustomClassType<c10::intrusive_ptr<c10d::Work>>();
    if (value.type()->isSubtypeOf(*work_type)) return value.toCustomClass<c10d::Work>();
  }
  return {};
}

}  // namespace

bool is_collective(const c10::FunctionSchema& schema) { return schema.name().rfind("c10d::", 0) == 0; }

void run_collective(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack) {
  UnderWay started;
  try {
    for (const OpInfo::Argument& argument : info.tensor_arguments)
      g_target.finder().in_value((*stack)[stack->size() - info.arguments + argument.index],
                                 [&](pager::Block& block) { pin(block.data, started.blocks); });
    op.redispatchBoxed(after_key(keys), stack);
  } catch (...) {
    unpin(started.blocks);
    throw;
  }
  for (const c10::IValue& result : torch::jit::last(*stack, info.returns))
    if (auto work = find_work(result)) started.work = std::move(work);
  if (started.work == nullptr || started.work->isCompleted()) {
    unpin(started.blocks);
    return;
  }
  // The op's temporaries too: a reduce_scatter goes on in a copy of its input.
  pager::t_state.top->for_each([&](const pager::Block& block) {
    if ((block.state() & pager::kDead) == 0) pin(block.data, started.blocks);
  });
  g_under_way_count += 1;
  g_going_on_count += started.goes_on_by_itself() ? 1 : 0;
  const std::lock_guard lock(g_collectives_mutex);
  g_under_way.push_back(std::move(started));
}

bool release_finished() {
  std::vector<UnderWay> candidates, still;
  {
    const std::lock_guard lock(g_collectives_mutex);
    candidates.swap(g_under_way);
  }
  std::size_t released = 0;
  for (UnderWay& one : candidates) {
    if (!one.is_over()) {
      still.push_back(std::move(one));
      continue;
    }
    unpin(one.blocks);
    g_going_on_count -= one.goes_on_by_itself() ? 1 : 0;
    ++released;
  }
  candidates.clear();  // drops finished Work here, where freeing its tensors may take any lock
  g_under_way_count -= released;
  const std::lock_guard lock(g_collectives_mutex);
  for (UnderWay& one : still) g_under_way.push_back(std::move(one));
  return released != 0;
}

std::mutex& collectives_lock() { return g_collectives_mutex; }

bool wait_for_a_collective() {
  if (pager::t_state.keeps_allocations) return false;
  const double give_up = base::seconds_now() + kPatience;
  while (g_under_way_count != 0) {
    if (release_finished()) return true;
    if (g_going_on_count == 0 || base::seconds_now() > give_up) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return false;
}

bool is_collective_thread() {
  char name[16] = {};
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strncmp(name, "pt_gloo", 7) == 0;
}

}  // namespace tensorpager::intercept
