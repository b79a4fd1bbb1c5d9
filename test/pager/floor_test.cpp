#include "tensorpager/pager/floor.h"

#include <gtest/gtest.h>

namespace tensorpager::pager {
namespace {

using base::Bytes;

class FloorTest : public testing::Test {
 protected:
  ~FloorTest() override { t_state.pinned = 0; }

  arena::Ledger ledger_{base::kUnlimited};
  Floor floor_{ledger_};
};

TEST_F(FloorTest, IsTheMostThatOneOpHadPinnedWithWhatCannotBeEvicted) {
  ledger_.born_in_slab(Bytes(100));
  floor_.note_unevictable();
  floor_.add_export(Bytes(10));
  t_state.pinned = 5;
  floor_.note_working_set();
  EXPECT_EQ(floor_.bytes(), Bytes(115));
  t_state.pinned = 3;
  floor_.note_working_set();
  EXPECT_EQ(floor_.bytes(), Bytes(115)) << "a smaller op";
}

TEST_F(FloorTest, DoesNotCountExportsThatEnded) {
  floor_.add_export(Bytes(10));
  floor_.add_export(Bytes(20));
  floor_.remove_export(Bytes(10));
  EXPECT_EQ(floor_.exports(), Bytes(20));
  floor_.note_working_set();
  EXPECT_EQ(floor_.bytes(), Bytes(20));
}

TEST_F(FloorTest, TakesAThreadWhoseLastPinsWereAnothersForOneWithoutPins) {
  t_state.pinned = -7;
  floor_.add_export(Bytes(10));
  floor_.note_working_set();
  EXPECT_EQ(floor_.bytes(), Bytes(10));
}

}  // namespace
}  // namespace tensorpager::pager
