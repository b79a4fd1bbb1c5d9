#include "tensorpager/intercept/call_record.h"

#include <torch/csrc/autograd/graph_task.h>

#include "tensorpager/intercept/op_work.h"

namespace tensorpager::intercept {

void CallRecord::add(const at::TensorBase& tensor, pager::Access access) {
  tensors_.push_back(tensor);
  g_target.finder().in_tensor(tensor, [&](const pager::Block& block) {
    touches_.add(block, access);
    moved_ += moved_of(tensor, block);
  });
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

void CallRecord::tell(base::EventSink& sink, Frame& frame, const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  base::OpFacts facts{.name = info.name, .random = info.random, .list = info.list};
  facts.backward = torch::autograd::get_current_graph_task_id() != -1;
  facts.flops = flops_of(info.arithmetic, tensors_, arguments);
  facts.moved = moved_;
  for (const at::TensorBase& tensor : tensors_) {
    if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) continue;
    facts.precision = precision_of(tensor);
    break;
  }
  frame.record(sink, facts, touches_);
}

void record_boxed(base::EventSink& sink, Frame& frame, const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  CallRecord record;
  for (const OpInfo::Argument& argument : info.tensor_arguments) record.add(arguments[argument.index], argument.access);
  record.tell(sink, frame, info, arguments);
}

}  // namespace tensorpager::intercept
