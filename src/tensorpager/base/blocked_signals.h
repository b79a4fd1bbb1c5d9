// Keeps signals from a thread for a while: the program's signals are for its own threads.
#pragma once

#include <csignal>

namespace tensorpager::base {

/// While it lives all signals of this thread are blocked, and of the threads and processes that it starts for as long
/// as these live.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tensorpager::base
