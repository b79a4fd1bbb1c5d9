// Sees every dispatcher call of the threads that carry our key: before an op runs, all it touches is resident and stays so until it returns.
#pragma once

#include "tensorpager/arena/address_space.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::intercept {

/// Registers our kernels with torch; once in a process. Both objects must live for ever.
void install(pager::Pager& pager, const arena::AddressSpace& space);
/// Whether calls are seen, or pass through.
void set_active(bool active);

/// Puts the key into this thread's set, so that its ops are seen. Cheap to repeat; does nothing while inactive.
void enter_thread();

}  // namespace tensorpager::intercept
