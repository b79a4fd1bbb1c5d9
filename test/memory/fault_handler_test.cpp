// Which faults are served, and what becomes of all others. Whatever may end the process runs in a child.
#include "tensorpager/memory/fault_handler.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <thread>

#include "../pager/pager_fixture.h"

namespace tensorpager::memory {
namespace {

using pager::Block;
using testing::KilledBySignal;

/// Nobody's address; volatile, or the compiler would know better than to touch it.
volatile int* volatile g_nowhere = reinterpret_cast<volatile int*>(16);

void set_handler(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}

void exit_with_7(int, siginfo_t*, void*) { _exit(7); }
void plain_exit_with_8(int) { _exit(8); }

sigjmp_buf g_jump;
std::atomic<int> g_jumps{0};
void jump_back(int, siginfo_t*, void*) {
  ++g_jumps;
  siglongjmp(g_jump, 1);
}

/// What the action was before, as chaining handlers keep it.
struct sigaction g_before {};
void say_restore_and_raise(int signal_number, siginfo_t*, void*) {
  static_cast<void>(write(STDERR_FILENO, "traceback.", 10));
  sigaction(signal_number, &g_before, nullptr);
  raise(signal_number);
}

class FaultHandlerTest : public pager::PagerTest {
 protected:
  void SetUp() override {
    start(base::kUnlimited);
    block_ = &make(kBlock, 1);
    pager_.page_out_all();
  }
  /// Our handler, in front of nothing but `handler`.
  void install_after(void (*handler)(int, siginfo_t*, void*)) {
    set_handler(handler);
    install_fault_handler(pager_);
  }

  Block* block_ = nullptr;
};

using FaultHandlerDeathTest = FaultHandlerTest;

TEST_F(FaultHandlerTest, ServesReadsAndWritesAndTellsThemApart) {
  EXPECT_TRUE(is_filled(*block_, 1));
  EXPECT_EQ(counts().faults, 1u);
  EXPECT_EQ(counts().write_faults, 0u);
  fill(*block_, 2);
  EXPECT_EQ(counts().faults, 1u);
  EXPECT_EQ(counts().write_faults, 1u);
}

TEST_F(FaultHandlerTest, ServesThreadsThatNeverRanAnOp) {
  std::thread([&] { EXPECT_TRUE(is_filled(*block_, 1)); }).join();
  EXPECT_EQ(counts().faults, 1u);
}

TEST_F(FaultHandlerTest, LeavesErrnoAlone) {
  errno = 4711;
  static_cast<void>(*static_cast<volatile std::byte*>(block_->data));
  EXPECT_EQ(errno, 4711);
}

std::atomic<int> g_observed{0};

TEST_F(FaultHandlerTest, TellsTheObserverOfServedFaultsOnTheirThread) {
  static thread_local bool t_here = false;
  t_here = true;
  g_observed = 0;
  set_fault_observer([] { g_observed += t_here ? 1 : 100; });
  EXPECT_TRUE(is_filled(*block_, 1));
  set_fault_observer(nullptr);
  EXPECT_EQ(g_observed, 1);
}

TEST_F(FaultHandlerDeathTest, PassesOnWhatIsNotOurs) {
  EXPECT_EXIT(
      {
        install_after(&exit_with_7);
        *g_nowhere = 1;
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, &plain_exit_with_8);
        install_fault_handler(pager_);
        *g_nowhere = 1;
      },
      testing::ExitedWithCode(8), "");
}

TEST_F(FaultHandlerDeathTest, PassesOnAddressesOfOursThatHoldNoBlock) {
  const std::byte* data = block_->data;
  destroy(*block_);
  install_after(&exit_with_7);
  EXPECT_EXIT(static_cast<void>(*static_cast<const volatile std::byte*>(data)), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(static_cast<void>(*static_cast<const volatile std::byte*>(space_.end() - 1)), testing::ExitedWithCode(7),
              "");
}

TEST_F(FaultHandlerDeathTest, EndsTheProcessWhereNobodyElseHandlesFaults) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        install_fault_handler(pager_);
        *g_nowhere = 1;
      },
      KilledBySignal(SIGSEGV), "");
}

TEST_F(FaultHandlerDeathTest, EndsTheProcessForASignalThatSomebodySends) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        install_fault_handler(pager_);
        kill(getpid(), SIGSEGV);
        _exit(0);
      },
      KilledBySignal(SIGSEGV), "");
}

TEST_F(FaultHandlerDeathTest, ComesBackInFrontOfWhoeverReplacedIt) {
  EXPECT_EXIT(
      {
        set_handler(&exit_with_7);
        install_fault_handler(pager_);
        install_fault_handler(pager_);
        if (!is_filled(*block_, 1)) _exit(1);
        *g_nowhere = 1;
      },
      testing::ExitedWithCode(7), "");
}

// As faulthandler does: says where it was, puts back what it had replaced, which is us, and sends the signal again.
TEST_F(FaultHandlerDeathTest, IsNotGoneRoundInByAHandlerThatRestoresItAndRaises) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer holds back signals that a handler sends";
#endif
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        install_fault_handler(pager_);
        sigaction(SIGSEGV, nullptr, &g_before);
        set_handler(&say_restore_and_raise);
        install_fault_handler(pager_);
        *g_nowhere = 1;
      },
      KilledBySignal(SIGSEGV), "^traceback\\.$");
}

TEST_F(FaultHandlerDeathTest, ServesOnAfterAHandlerThatJumpsOut) {
  EXPECT_EXIT(
      {
        install_after(&jump_back);
        for (g_jumps = 0; g_jumps < 3;) {
          if (sigsetjmp(g_jump, 1) == 0) *g_nowhere = 1;
        }
        _exit(is_filled(*block_, 1) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(FaultHandlerDeathTest, GivesUpOnAFaultThatPagingCannotMend) {
  fill(*block_, 1);
  EXPECT_EXIT(
      {
        install_after(&exit_with_7);
        mprotect(block_->data, kBlock.count(), PROT_NONE);
        static_cast<void>(*static_cast<volatile std::byte*>(block_->data));
      },
      testing::ExitedWithCode(7), "");
}

// Each time another thread brought the block in between the fault and its handling: no reason to give up, however
// often.
TEST_F(FaultHandlerTest, NeverGivesUpOnABlockThatOthersPageInFirst) {
  for (int i = 0; i < 3000; ++i) {
    EXPECT_TRUE(holds(*block_, 1));
    ASSERT_TRUE(pager_.outside().serve_fault(block_->data, pager::OutsideAccess::FaultKind::kRead)) << "fault " << i;
    pager_.page_out_all();
  }
}

TEST_F(FaultHandlerTest, IsRefusedNothingByPinsAndCountsWhatIsOver) {
  pager_.stop();
  start(room_for(2));
  pager_.page_out_all();
  pager::PinSet op(pager_, pager::Temporaries::kKeep);
  make(room_for(2), 2);
  EXPECT_TRUE(is_filled(*block_, 1));
  EXPECT_EQ(counts().over_budget_bytes, kBlock.count());
  expected_over_budget_ = kBlock;
}

}  // namespace
}  // namespace tensorpager::memory
