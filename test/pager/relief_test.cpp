#include "tensorpager/pager/relief.h"

#include <gtest/gtest.h>

#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using base::Bytes;

constexpr Bytes kBudget{100};

int g_calls = 0;
bool g_helps = false;

bool relieve() {
  ++g_calls;
  return g_helps;
}

class ReliefOfARequest : public testing::Test {
 protected:
  ReliefOfARequest() { g_calls = 0, g_helps = true; }

  /// A request that fits at its third try; each try raises the floor.
  int request(Bytes bytes) {
    return relief_.with([&] {
      floor_.note(floor_.bytes() + bytes);
      if (++tries_ < 3) throw base::OverBudget(bytes, kBudget, kBudget);
      return tries_;
    });
  }

  arena::Ledger ledger_{kBudget};
  Floor floor_{ledger_};
  Relief relief_{floor_};
  int tries_ = 0;
};

TEST_F(ReliefOfARequest, TriesAgainWhileItHelpsAndForgetsWhatRefusedTriesRequired) {
  relief_.set(&relieve);
  EXPECT_EQ(request(Bytes(10)), 3);
  EXPECT_EQ(g_calls, 2);
  EXPECT_EQ(floor_.bytes(), Bytes(10));
}

TEST_F(ReliefOfARequest, IsRefusedWhereNothingHelps) {
  EXPECT_THROW(request(Bytes(10)), base::OverBudget) << "none is set";
  relief_.set(&relieve);
  g_helps = false;
  EXPECT_THROW(request(Bytes(10)), base::OverBudget);
  EXPECT_EQ(g_calls, 1);
}

TEST_F(ReliefOfARequest, AsksNobodyForMoreThanTheBudget) {
  relief_.set(&relieve);
  EXPECT_THROW(request(kBudget + Bytes(1)), base::OverBudget);
  EXPECT_EQ(g_calls, 0);
}

}  // namespace
}  // namespace tensorpager::pager
