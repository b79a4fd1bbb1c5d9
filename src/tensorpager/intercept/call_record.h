// What one call does, gathered from its arguments for the recorder of ops: they are visited a second time, only while
// ops are recorded.
#pragma once

#include <vector>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/pager/recorded_op.h"

namespace tensorpager::intercept {

class CallRecord {
 public:
  explicit CallRecord(const OpInfo& info) : info_(info) {}

  void add(const at::TensorBase& tensor, pager::Access access);
  void add(const c10::IValue& value, pager::Access access);

  /// Reports the op to the sink, and to the frame that it is recorded. `arguments`: of a boxed call.
  void tell(base::EventSink& sink, Frame& frame, c10::ArrayRef<c10::IValue> arguments = {});

 private:
  void add_of_device(const at::TensorBase& tensor, pager::Access access);
  void count(const at::TensorBase& tensor, base::Bytes storage, pager::Access access);

  const OpInfo& info_;
  pager::Touches touches_;
  std::vector<at::TensorBase> tensors_;
  base::Bytes moved_;
};

/// The record of a call whose arguments lie in `arguments`.
void record_boxed(base::EventSink& sink, Frame& frame, const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tensorpager::intercept
