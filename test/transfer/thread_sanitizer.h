// ThreadSanitizer's options for tests that fork or fault.
#pragma once

#ifdef __SANITIZE_THREAD__
/// Paging allocates, which ThreadSanitizer reports in signal handlers. Ours runs only where the program touched a
/// block, and no allocator is half way through its work there. And a forked child starts threads for its own transfers.
extern "C" [[gnu::used, gnu::visibility("default")]] inline const char* __tsan_default_options() {
  return "report_signal_unsafe=0:die_after_fork=0";
}
#endif
