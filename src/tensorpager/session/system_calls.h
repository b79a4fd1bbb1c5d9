// Joins the pager to the calls of preload/system_calls.h.
#pragma once

#include "tensorpager/arena/address_space.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::session {

/// Once in a process; both must live for ever. Does nothing where no copy of those calls comes before the C library's,
/// as in a Python program that was not started by `tensorpager run`.
void serve_system_calls(pager::Pager& pager, const arena::AddressSpace& space);

}  // namespace tensorpager::session
