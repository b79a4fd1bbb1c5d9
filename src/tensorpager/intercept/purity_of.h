// Who knows whether an op gives the same results if it runs again. The interceptor asks for each op that it records.
#pragma once

#include <ATen/core/ivalue.h>

#include "tensorpager/base/config.h"
#include "tensorpager/base/event_sink.h"

namespace c10 {
class OperatorHandle;
}  // namespace c10

namespace tensorpager::intercept {

/// `arguments`: of a boxed call; empty for others. `device`: whose kernel runs.
using PurityOf = base::Purity (*)(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                                  base::Device device);

}  // namespace tensorpager::intercept
