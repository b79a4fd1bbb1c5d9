#include "tensorpager/replay/rerun.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/replay/in_leaf.h"
#include "tensorpager/replay/storages.h"

namespace tensorpager::replay {
namespace {

struct Found {
  c10::Storage storage;
  bool is_made = false;  // by a replay, and no block's of the program
};

/// The storage of an input, wherever it is by now; null if it is gone.
Found find(Recipes& recipes, const Call::Input& input, const Made& made) {
  if (input.copy) return {.storage = input.copy};
  if (c10::Storage storage = recipes.storage_of(input)) return {.storage = std::move(storage)};
  const c10::Storage* const found = made.find(input.contents);
  return {.storage = found != nullptr ? *found : c10::Storage(), .is_made = found != nullptr};
}

/// The storages of all tensors among the results, by the order in which for_each_tensor finds them.
std::vector<c10::Storage> storages_of(const torch::jit::Stack& results) {
  std::vector<c10::Storage> storages;
  for (const c10::IValue& result : results)
    intercept::for_each_tensor(result, [&](const at::TensorBase& tensor) {
      storages.push_back(tensor.defined() ? tensor.unsafeGetTensorImpl()->unsafe_storage() : c10::Storage());
    });
  return storages;
}

c10::DeviceType type_of(base::Device device) {
  return device == base::Device::kCuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
}

/// Around the work of a replay on a device: what the program does to order its streams knows nothing of it.
class OutOfOrder {
 public:
  /// `inputs`: pinned, and nothing else.
  OutOfOrder(pager::Pager& pager, const Call& call, const pager::PinSet& inputs)
      : pager_(pager), copied_in_(call.copied_in) {
    inputs.for_each([this](pager::Block& block) { blocks_.push_back(&block); });
    pager_.ordering().begin_out_of_order(blocks_, copied_in_);
  }
  ~OutOfOrder() { pager_.ordering().end_out_of_order(blocks_, copied_in_); }
  OutOfOrder(const OutOfOrder&) = delete;
  OutOfOrder& operator=(const OutOfOrder&) = delete;

 private:
  pager::Pager& pager_;
  const device::QueueSet copied_in_;
  std::vector<pager::Block*> blocks_;
};

}  // namespace

bool can_rerun(Recipes& recipes, const Call& call, const Made& made) {
  return call.op.can_be_replayed() && std::ranges::all_of(call.inputs, [&](const Call::Input& input) {
           return !input.needs_contents() || find(recipes, input, made).storage;
         });
}

void see_inputs(Recipes& recipes, const Call& call, const Made& made, pager::PinSet& pins) {
  for (const Call::Input& input : call.inputs) {
    if (!input.needs_contents()) continue;
    const c10::Storage storage = find(recipes, input, made).storage;
    pager::Block* const block = storage ? block_of(storage) : nullptr;
    if (block != nullptr) pins.see(*block, pager::Access::kRead);
  }
}

std::vector<Made::One> rerun(pager::Pager& pager, Recipes& recipes, const Call& call, Made& made, const Rerun& how) {
  pager::PinSet pins(pager, pager::Temporaries::kKeep);
  std::vector<c10::Storage> memory;
  std::vector<bool> is_copied;
  for (const Call::Input& input : call.inputs) {
    is_copied.push_back(false);
    if (!input.needs_contents() && !input.copy) {
      memory.emplace_back();
      continue;
    }
    Found found = find(recipes, input, made);
    TORCH_CHECK(found.storage, "Tensorpager: a dropped storage cannot be rebuilt, as what it was made from is gone");
    const bool is_overwritten = input.use != Use::kRead && found.is_made && how.may_overwrite(input.contents);
    intercept::g_target.finder().in_storage(*found.storage.unsafeGetStorageImpl(), [&](pager::Block& block) {
      pins.see(block, is_overwritten ? pager::Access::kWrite : pager::Access::kRead);
    });
    is_copied.back() = input.use != Use::kRead && !is_overwritten;
    if (is_overwritten) made.remove([&](const Made::One& one) { return one.contents == input.contents; });
    memory.push_back(std::move(found.storage));
  }
  pins.admit();
  const OutOfOrder order(pager, call, pins);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (is_copied[i]) memory[i] = copy_of(memory[i]);
    if (!memory[i]) memory[i] = new_storage(call.inputs[i].bytes, type_of(call.op.device()));
  }
  std::vector<Made::One> outputs;
  {
    const InLeaf leaf;
    const std::vector<c10::Storage> results = storages_of(call.op.replay(memory));
    for (const Call::Output& output : call.outputs)
      outputs.push_back({output.contents,
                         output.result == Call::Output::kWritten ? memory[output.input] : results.at(output.result)});
  }
  memory.clear();
  const std::vector<std::optional<DroppedBlock>> dropped = recipes.dropped_outputs(call);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (dropped[i] && how.rebuilds(call.outputs[i])) take_over(pager, *dropped[i], std::move(outputs[i].storage));
  std::erase_if(outputs, [](const Made::One& one) { return !one.storage; });
  // From now on they can be evicted: their storages claim the blocks.
  for (const Made::One& one : outputs)
    intercept::g_target.finder().in_storage(*one.storage.unsafeGetStorageImpl(), [](const pager::Block&) {});
  return outputs;
}

void take_over(pager::Pager& pager, const DroppedBlock& block, c10::Storage storage) {
  pager::Block* const fresh = block_of(storage);
  TORCH_CHECK(fresh != nullptr && fresh->size == block.size, "Tensorpager: a replay made a storage of ",
              storage.nbytes(), " bytes, where the op had made ", block.size.count());
  c10::DataPtr& memory = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  void* const owner = memory.release_context();
  if (pager.dropped().take_over(block.number, *fresh)) return;
  memory = {memory.get(), owner, memory.get_deleter(), memory.device()};
}

}  // namespace tensorpager::replay
