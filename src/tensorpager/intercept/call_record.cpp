#include "tensorpager/intercept/call_record.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "tensorpager/roofline/op_work.h"

namespace tensorpager::intercept {

void CallRecord::add(const at::TensorBase& tensor, pager::Access access, Frame& frame) {
  tensors_.push_back(tensor);
  g_target.finder().in_tensor(tensor, [&](pager::Block& block) {
    frame.see(block, access);
    if (g_target.device != nullptr) return;
    op_.touch(block.number, access);
    count(tensor, block.size, access);
  });
  if (g_target.device != nullptr) add_of_device(tensor, access);
}

void CallRecord::add(const c10::IValue& value, pager::Access access, Frame& frame) {
  if (value.isStorage()) return frame.see(value, access);
  for_each_tensor(value, [&](const at::TensorBase& tensor) { add(tensor, access, frame); });
}

void CallRecord::add(c10::StorageImpl& storage, pager::Access access, Frame& frame) {
  g_target.finder().in_storage(storage, [&](pager::Block& block) {
    frame.see(block, access);
    if (g_target.device == nullptr) op_.touch(block.number, access);
  });
}

void CallRecord::add_of_device(const at::TensorBase& tensor, pager::Access access) {
  if (!tensor.defined()) return;
  if (!tensor.unsafeGetTensorImpl()->has_storage())
    return for_each_part(tensor, [&](const at::TensorBase& part) { add_of_device(part, access); });
  const auto found = find_of_device(tensor);
  if (!found) return;
  op_.touch(found->number, access);
  count(tensor, found->size, access);
}

/// Bytes that are read and written in place move twice.
void CallRecord::count(const at::TensorBase& tensor, base::Bytes storage, pager::Access access) {
  const base::Bytes once = roofline::moved_of(tensor, storage);
  moved_ += once;
  if (access == pager::Access::kWrite && info_.reads_what_it_writes) moved_ += once;
}

/// What is made from memory that is not ours, or of nothing, may be written by code outside of ops.
bool CallRecord::can_be_captured() const {
  if (g_target.device != nullptr) return true;
  const auto is_foreign = [](const at::TensorBase& tensor) {
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return false;
    c10::StorageImpl& storage = *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    const std::optional<std::int64_t> bytes = storage.sym_nbytes().maybe_as_int();  // symbolic while a graph is traced
    return bytes >= static_cast<std::int64_t>(base::kMinPagedBytes.count()) &&
           g_target.finder().peek(storage) == nullptr;
  };
  return std::ranges::any_of(tensors_, [](const at::TensorBase& tensor) { return tensor.defined(); }) &&
         std::ranges::none_of(tensors_, is_foreign);
}

void CallRecord::begin(base::EventSink& sink, const Frame& frame, c10::ArrayRef<c10::IValue> arguments) {
  base::OpFacts facts{.name = info_.name, .random = info_.random, .list = info_.list};
  facts.backward = torch::autograd::get_current_graph_task_id() != -1;
  facts.flops = roofline::flops_of(info_.arithmetic, tensors_, arguments);
  facts.moved = moved_;
  const auto is_floating = [](const at::TensorBase& tensor) {
    return tensor.defined() && at::isFloatingType(tensor.scalar_type());
  };
  const auto first = std::ranges::find_if(tensors_, is_floating);
  if (facts.flops > 0 && first != tensors_.end()) facts.precision = roofline::precision_of(*first);
  if (g_target.purity_of != nullptr && info_.op && can_be_captured()) {
    const bool is_on_host = g_target.device == nullptr && !g_target.pager->is_on_device();
    const auto device = is_on_host ? base::Device::kHost : base::Device::kCuda;
    facts.purity = g_target.purity_of(*info_.op, arguments, device);
  }
  op_.begin(sink, frame.pins(), facts);
}

}  // namespace tensorpager::intercept
