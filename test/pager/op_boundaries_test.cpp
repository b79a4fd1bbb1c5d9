#include "tensorpager/pager/op_boundaries.h"

#include "pager_fixture.h"

namespace tensorpager::pager {
namespace {

class OpBoundariesTest : public PagerTest {
 protected:
  OpBoundariesTest() { start(base::kUnlimited); }

  void call_once(std::uint64_t after_ops) {
    boundaries_.call_once([this] { ++calls_; }, after_ops);
  }
  void begin_ops(int ops) {
    for (int op = 0; op < ops; ++op) boundaries_.op_begins();
  }

  OpBoundaries& boundaries_ = pager_.boundaries();
  int calls_ = 0;
};

TEST_F(OpBoundariesTest, CallATaskOnceWhenSoManyOpsHaveBegun) {
  call_once(3);
  begin_ops(2);
  EXPECT_EQ(calls_, 0);
  begin_ops(1);
  EXPECT_EQ(calls_, 1);
  begin_ops(5);
  EXPECT_EQ(calls_, 1);
}

TEST_F(OpBoundariesTest, CallNoTaskWithinAnotherOp) {
  call_once(0);
  {
    const PinSet outer(pager_, Temporaries::kKeep);
    begin_ops(3);
    EXPECT_EQ(calls_, 0);
  }
  begin_ops(1);
  EXPECT_EQ(calls_, 1);
}

TEST_F(OpBoundariesTest, CallTheNewestTaskOnly) {
  call_once(0);
  boundaries_.call_once(nullptr);
  begin_ops(3);
  EXPECT_EQ(calls_, 0) << "cancelled";
  int others = 0;
  call_once(0);
  boundaries_.call_once([&] { ++others; });
  begin_ops(3);
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(others, 1);
}

TEST_F(OpBoundariesTest, CallNoTaskAfterTheSession) {
  call_once(0);
  pager_.stop();
  begin_ops(3);
  EXPECT_EQ(calls_, 0);
  start(base::kUnlimited);
}

TEST_F(OpBoundariesTest, CountOps) {
  begin_ops(7);
  EXPECT_EQ(counts().ops, 7u);
}

}  // namespace
}  // namespace tensorpager::pager
