#include "tensorpager/intercept/collectives.h"

#include <pthread.h>
#include <torch/custom_class.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/key.h"

namespace tensorpager::intercept {
namespace {

/// A collective under way, and the export pins that it holds.
struct UnderWay {
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<pager::Block*> blocks;
};

std::mutex g_mutex;
auto& g_under_way = *new std::vector<UnderWay>;  // never destroyed: exit handlers may still run ops
std::atomic<std::size_t> g_count{0};

void pin(const c10::IValue& value, std::vector<pager::Block*>& blocks) {
  g_target.finder().in_value(value, [&](pager::Block& block) {
    if (g_target.pager->pin_export(block.data) != nullptr) blocks.push_back(&block);
  });
}

void unpin(const std::vector<pager::Block*>& blocks) {
  for (pager::Block* block : blocks) g_target.pager->unpin_export(*block);
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
      pin((*stack)[stack->size() - info.arguments + argument.index], started.blocks);
    op.redispatchBoxed(after_key(keys), stack);
  } catch (...) {
    unpin(started.blocks);
    throw;
  }
  for (const c10::IValue& result : torch::jit::last(*stack, info.returns)) {
    pin(result, started.blocks);
    if (auto work = find_work(result)) started.work = std::move(work);
  }
  if (started.work == nullptr || started.work->isCompleted()) {
    unpin(started.blocks);
    return;
  }
  const std::lock_guard lock(g_mutex);
  g_under_way.push_back(std::move(started));
  g_count.store(g_under_way.size(), std::memory_order_relaxed);
}

void release_finished_collectives() {
  if (g_count.load(std::memory_order_relaxed) == 0) return;
  std::vector<UnderWay> candidates, still;
  {
    const std::lock_guard lock(g_mutex);
    candidates.swap(g_under_way);
  }
  for (UnderWay& one : candidates) {
    if (one.work->isCompleted())
      unpin(one.blocks);
    else
      still.push_back(std::move(one));
  }
  candidates.clear();  // drops finished Work here, where freeing its tensors may take any lock
  const std::lock_guard lock(g_mutex);
  for (UnderWay& one : still) g_under_way.push_back(std::move(one));
  g_count.store(g_under_way.size(), std::memory_order_relaxed);
}

bool is_collective_thread() {
  char name[16] = {};
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strncmp(name, "pt_gloo", 7) == 0;
}

}  // namespace tensorpager::intercept
