// Connects the pager to the wrappers of preload/system_calls.h.
#pragma once

#include "tensorpager/arena/address_space.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::session {

/// Called once in a process; both arguments must live for ever. Does nothing if no copy of the wrappers precedes the C
/// library, as in a Python program that `tensorpager run` did not start.
void serve_system_calls(pager::Pager& pager, const arena::AddressSpace& space);

}  // namespace tensorpager::session
