#include "tensorpager/intercept/call_record.h"

#include <torch/csrc/autograd/graph_task.h>

#include "tensorpager/intercept/op_work.h"

namespace tensorpager::intercept {

void CallRecord::add(const at::TensorBase& tensor, pager::Access access) {
  tensors_.push_back(tensor);
  if (g_target.device != nullptr) return add_of_device(tensor, access);
  g_target.finder().in_tensor(tensor, [&](const pager::Block& block) {
    touches_.add(block.number, access);
    count(tensor, block.size, access);
  });
}

void CallRecord::add_of_device(const at::TensorBase& tensor, pager::Access access) {
  if (!tensor.defined() || tensor.device().is_cpu()) return;
  if (!tensor.unsafeGetTensorImpl()->has_storage())
    return for_each_part(tensor, [&](const at::TensorBase& part) { add_of_device(part, access); });
  const auto found =
      g_target.device->find(tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  if (!found) return;
  touches_.add(found->number, access);
  count(tensor, found->size, access);
}

/// Bytes that are read and written in place move twice.
void CallRecord::count(const at::TensorBase& tensor, base::Bytes storage, pager::Access access) {
  const base::Bytes once = moved_of(tensor, storage);
  moved_ += once;
  if (access == pager::Access::kWrite && info_.reads_what_it_writes) moved_ += once;
}

void CallRecord::add(const c10::IValue& value, pager::Access access) {
  if (value.isTensor()) {
    add(value.toTensor(), access);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) add(element, access);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) add(element, access);
  }
}

void CallRecord::tell(base::EventSink& sink, Frame& frame, c10::ArrayRef<c10::IValue> arguments) {
  base::OpFacts facts{.name = info_.name, .random = info_.random, .list = info_.list};
  facts.backward = torch::autograd::get_current_graph_task_id() != -1;
  facts.flops = flops_of(info_.arithmetic, tensors_, arguments);
  facts.moved = moved_;
  for (const at::TensorBase& tensor : tensors_) {
    if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) continue;
    facts.precision = precision_of(tensor);
    break;
  }
  frame.record(sink, facts, touches_);
}

void record_boxed(base::EventSink& sink, Frame& frame, const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  CallRecord record(info);
  for (const OpInfo::Argument& argument : info.tensor_arguments) record.add(arguments[argument.index], argument.access);
  record.tell(sink, frame, arguments);
}

}  // namespace tensorpager::intercept
