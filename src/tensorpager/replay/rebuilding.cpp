#include "tensorpager/replay/rebuilding.h"

#include <c10/util/Exception.h>

#include <unordered_set>
#include <utility>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/replay/in_leaf.h"
#include "tensorpager/replay/storages.h"

namespace tensorpager::replay {
namespace {

/// The storages of all tensors among the results, by the order in which for_each_tensor finds them.
std::vector<c10::Storage> storages_of(const torch::jit::Stack& results) {
  std::vector<c10::Storage> storages;
  for (const c10::IValue& result : results)
    intercept::for_each_tensor(result, [&](const at::TensorBase& tensor) {
      storages.push_back(tensor.defined() ? tensor.unsafeGetTensorImpl()->unsafe_storage() : c10::Storage());
    });
  return storages;
}

}  // namespace

Rebuilding::Rebuilding(pager::Pager& pager, Recipes& recipes, const Product& product)
    : pager_(pager), recipes_(recipes) {
  // Depth first, without recursion: chains are long.
  struct Visit {
    Step step;
    std::size_t next_input = 0;
  };
  std::vector<Visit> path;
  path.push_back({.step = {product.call, {}}});
  std::unordered_set<const Call*> seen{product.call.get()};
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.next_input == visit.step.call->inputs.size()) {
      steps_.push_back(std::move(visit.step));
      path.pop_back();
      continue;
    }
    const Call::Input& input = visit.step.call->inputs[visit.next_input++];
    if (input.copy) continue;
    const Product maker =
        recipes_.storage_of(input) ? recipes_.product_of_dropped(input.contents.block) : input.made_by;
    if (!maker) continue;
    visit.step.makers.push_back(maker.call.get());
    ++uses_[maker.call.get()];
    if (seen.insert(maker.call.get()).second) path.push_back({.step = {maker.call, {}}});
  }
}

void Rebuilding::run() {
  for (const Step& step : steps_) run(step);
}

/// The storage of an input, wherever it is by now.
Rebuilding::Found Rebuilding::find(const Call::Input& input) const {
  if (input.copy) return {.storage = input.copy};
  if (c10::Storage storage = recipes_.storage_of(input)) return {.storage = std::move(storage)};
  const auto made = made_.find(input.made_by.call.get());
  TORCH_CHECK(made != made_.end(),
              "Tensorpager: a dropped storage cannot be rebuilt, as what it was made from is gone");
  return {.storage = made->second.at(input.made_by.output), .is_ours = true};
}

/// What a call writes is its own.
c10::Storage Rebuilding::memory_for(const Call::Input& input, Found found) const {
  if (input.use == Call::Use::kRead) return std::move(found.storage);
  if (found.is_ours && uses_.at(input.made_by.call.get()) == 1) return std::move(found.storage);
  return copy_of(found.storage);
}

void Rebuilding::run(const Step& step) {
  const Call& call = *step.call;
  pager::PinSet pins(pager_, pager::Temporaries::kKeep);
  std::vector<Found> found;
  for (const Call::Input& input : call.inputs) {
    found.push_back(find(input));
    intercept::g_target.finder().in_storage(*found.back().storage.unsafeGetStorageImpl(), [&](pager::Block& block) {
      const bool is_written = found.back().is_ours && input.use != Call::Use::kRead;
      pins.see(block, is_written ? pager::Access::kWrite : pager::Access::kRead);
    });
  }
  pins.admit();
  Made made;
  {
    std::vector<c10::Storage> memory;
    for (std::size_t i = 0; i < found.size(); ++i) memory.push_back(memory_for(call.inputs[i], std::move(found[i])));
    const InLeaf leaf;
    const std::vector<c10::Storage> results = storages_of(call.op.replay(memory));
    for (const Call::Output& output : call.outputs)
      made.push_back(output.result == Call::Output::kWritten ? memory[output.input] : results.at(output.result));
  }
  found.clear();
  for (const Call* const maker : step.makers)
    if (--uses_.at(maker) == 0) made_.erase(maker);
  const std::vector<pager::Block*> dropped = recipes_.dropped_outputs(call);
  for (std::size_t i = 0; i < made.size(); ++i)
    if (dropped[i] != nullptr) take_over(*dropped[i], std::exchange(made[i], {}));
  const auto uses = uses_.find(&call);
  if (uses != uses_.end() && uses->second > 0) made_.emplace(&call, std::move(made));
}

/// The storage must be nobody else's.
void Rebuilding::take_over(pager::Block& block, c10::Storage storage) {
  pager::Block* const fresh = block_of(storage);
  TORCH_CHECK(fresh != nullptr && fresh->size == block.size, "Tensorpager: a replay made a storage of ",
              storage.nbytes(), " bytes, where the op had made ", block.size.count());
  storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().release_context();
  pager_.take_over(block, *fresh);
  recipes_.release(block.number);
}

}  // namespace tensorpager::replay
