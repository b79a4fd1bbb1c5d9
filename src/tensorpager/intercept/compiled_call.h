// A kernel that a compiler generated: it reads the addresses of tensors outside any dispatcher call, and is an op of
// its own here.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/FunctionRef.h>

#include <span>

#include "tensorpager/pager/block.h"

namespace tensorpager::intercept {

struct StorageArgument {
  c10::StorageImpl* storage;
  pager::Access access;
};

/// Calls `kernel` once, as an op that touches these storages. Throws torch's out-of-memory error, and has not called it
/// then, if they do not fit. `kernel` may throw.
void run_compiled(std::span<const StorageArgument> storages, c10::function_ref<void()> kernel);

}  // namespace tensorpager::intercept
