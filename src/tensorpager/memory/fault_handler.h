// Serves accesses from outside ops: a SIGSEGV handler that asks the pager, and passes faults that are not ours to the
// handler before it.
#pragma once

#include "tensorpager/pager/pager.h"

namespace tensorpager::memory {

/// Installs the handler for this pager; called again, it puts it back in front of a handler that replaced it (loader
/// workers, faulthandler).
void install_fault_handler(pager::Pager& pager);
/// Unblocks the signal in this thread. A fault while it is blocked ends the process, whatever the handler.
void accept_faults_here();
/// Called after a fault was served, on the faulting thread: the interceptor makes sure that it sees the thread's ops
/// from now on.
void set_fault_observer(void (*observer)());

}  // namespace tensorpager::memory
