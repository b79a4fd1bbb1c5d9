// What plain torch takes of a device: the memory that its caching allocator reserves for a step.
#pragma once

#include "tensorpager/base/bytes.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

/// Reserved by the model of the caching allocator (planning/caching_model.h) after three steps. Of the storages that
/// live through the step nobody knows in which order the program made them: here by their numbers.
base::Bytes reserved_by_torch(const trace::Trace& trace);

}  // namespace tensorpager::fit
