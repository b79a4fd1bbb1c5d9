// What one call does, gathered for the recorder of ops from the same visit of its arguments that pins their blocks.
// Only while ops are recorded.
#pragma once

#include <vector>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/pager/recorded_op.h"

namespace tensorpager::intercept {

class CallRecord {
 public:
  explicit CallRecord(const OpInfo& info) : info_(info) {}

  /// An argument of the call, which the frame sees too.
  void add(const at::TensorBase& tensor, pager::Access access, Frame& frame);
  void add(const c10::IValue& value, pager::Access access, Frame& frame);
  void add(c10::StorageImpl& storage, pager::Access access, Frame& frame);

  /// Reports the op to the sink, from here to the end of this object. `arguments`: of a boxed call.
  void begin(base::EventSink& sink, const Frame& frame, c10::ArrayRef<c10::IValue> arguments);

 private:
  bool can_be_captured() const;
  void add_of_device(const at::TensorBase& tensor, pager::Access access);
  void count(const at::TensorBase& tensor, base::Bytes storage, pager::Access access);

  const OpInfo& info_;
  std::vector<at::TensorBase> tensors_;
  base::Bytes moved_;
  pager::RecordedOp op_;
};

}  // namespace tensorpager::intercept
