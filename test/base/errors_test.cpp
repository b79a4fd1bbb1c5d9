#include "tensorpager/base/errors.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tensorpager::base {
namespace {

TEST(IoError, SaysWhatWasTriedWhereHowManyBytesAndWhy) {
  const IoError error("pwrite", "the spill file in /tmp/x", 64_KiB, ENOSPC);
  EXPECT_STREQ(error.what(), "cannot write 65536 bytes to the spill file in /tmp/x (pwrite: No space left on device)");
  EXPECT_EQ(error.error_number(), ENOSPC);
}

TEST(IoError, EndsWithTheAdviceAndLeavesOutACountOfNothing) {
  EXPECT_STREQ(IoError("open", "/x/step.trace", 0_B, ENOENT, "make the directory").what(),
               "cannot open /x/step.trace (open: No such file or directory); make the directory");
}

TEST(IoError, NamesACallThatItHasNoVerbFor) {
  EXPECT_STREQ(IoError("mprotect", "the arena", 4_KiB, ENOMEM).what(),
               "cannot use 4096 bytes of the arena (mprotect: Cannot allocate memory)");
}

TEST(OverBudget, SaysHowManyBytesAreMissing) {
  const OverBudget error(4_GiB, 7_GiB, 8_GiB);
  EXPECT_STREQ(
      error.what(),
      "out of memory under the budget: 4.00 GiB asked for and 7.00 GiB pinned are 3221225472 bytes more than the "
      "budget of 8.00 GiB; try a larger --budget or a smaller batch");
  EXPECT_EQ(error.asked(), 4_GiB);
  EXPECT_EQ(error.pinned(), 7_GiB);
  EXPECT_EQ(error.budget(), 8_GiB);
}

TEST(CheckDeathTest, PrintsTheClaimAndThePlaceThenAborts) {
  EXPECT_EXIT(TENSORPAGER_CHECK(1 + 1 == 3), testing::KilledBySignal(SIGABRT),
              "^tensorpager: internal error: 1 \\+ 1 == 3 at .*errors_test.cpp:[0-9]+; please report\n$");
}

TEST(Check, IsSilentWhenTheClaimHolds) {
  int evaluated = 0;
  TENSORPAGER_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace tensorpager::base
