#include "tensorpager/memory/fault_handler.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>

namespace tensorpager::memory {
namespace {

std::atomic<pager::Pager*> g_pager{nullptr};
std::atomic<void (*)()> g_observer{nullptr};
struct sigaction g_previous {};  // the handler that ours replaced last
struct sigaction g_first {};     // the handler that ours replaced first
[[gnu::tls_model("initial-exec")]] constinit thread_local bool t_passing_on = false;

pager::OutsideAccess::FaultKind kind_of(const void* context) {
#if defined(__x86_64__)
  constexpr unsigned long long kWriteBit = 2;  // of the page fault's error code
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  const bool write = (static_cast<unsigned long long>(machine->gregs[REG_ERR]) & kWriteBit) != 0;
  return write ? pager::OutsideAccess::FaultKind::kWrite : pager::OutsideAccess::FaultKind::kRead;
#else
  static_cast<void>(context);
  return pager::OutsideAccess::FaultKind::kUnknown;
#endif
}

void pass_on(int signal_number, siginfo_t* info, void* context) {
  const bool is_sent = info->si_code <= 0;
  // A handler that came after us may end with restoring us and raising the signal again, as faulthandler does. It has
  // had its turn.
  const struct sigaction& next = is_sent && t_passing_on ? g_first : g_previous;
  t_passing_on = true;
  if ((next.sa_flags & SA_SIGINFO) != 0 && next.sa_sigaction != nullptr) {
    next.sa_sigaction(signal_number, info, context);
  } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
    next.sa_handler(signal_number);
  } else if (next.sa_handler == SIG_DFL || !is_sent) {
    // Returning repeats the access, which now ends the process as it would have without us.
    signal(signal_number, SIG_DFL);
    if (is_sent) raise(signal_number);
  }
  t_passing_on = false;
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  pager::Pager* pager = g_pager.load(std::memory_order_acquire);
  const bool is_access = info->si_code > 0;  // sent by the kernel, not by kill()
  if (pager != nullptr && is_access && pager->outside().serve_fault(info->si_addr, kind_of(context))) {
    if (auto* observer = g_observer.load(std::memory_order_relaxed)) observer();
    errno = saved_errno;
    return;
  }
  pass_on(signal_number, info, context);
  errno = saved_errno;
}

}  // namespace

void accept_faults_here() {
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  pthread_sigmask(SIG_UNBLOCK, &fault, nullptr);
}

void install_fault_handler(pager::Pager& pager) {
  accept_faults_here();
  g_pager.store(&pager, std::memory_order_release);
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  // On the thread's alternate stack if it has one; and open to faults inside, which the pager recognizes.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  struct sigaction previous {};
  sigaction(SIGSEGV, &action, &previous);
  if (previous.sa_sigaction == &on_fault) return;
  static bool is_first = true;
  if (is_first) g_first = previous;
  is_first = false;
  g_previous = previous;
}

void set_fault_observer(void (*observer)()) { g_observer.store(observer, std::memory_order_relaxed); }

}  // namespace tensorpager::memory
