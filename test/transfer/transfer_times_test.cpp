#include "tensorpager/transfer/transfer_times.h"

#include <gtest/gtest.h>

namespace tensorpager::transfer {
namespace {

using namespace base;

TEST(TransferTimes, KnowNothingBeforeTheFirst) {
  EXPECT_EQ(TransferTimes().fit().bytes_per_second, 0);
  EXPECT_EQ(TransferTimes().fit().latency, 0);
}

TEST(TransferTimes, TellLatencyAndRateApartWhereSizesDiffer) {
  TransferTimes times;
  for (const Bytes bytes : {4_KiB, 64_KiB, 1_MiB}) times.add(bytes, 50e-6 + static_cast<double>(bytes.count()) / 2e9);
  EXPECT_NEAR(times.fit().latency, 50e-6, 1e-9);
  EXPECT_NEAR(times.fit().bytes_per_second, 2e9, 1e5);
}

TEST(TransferTimes, PutAllDownToTheRateWhereSizesSayNothing) {
  TransferTimes alike;
  for (int i = 0; i < 10; ++i) alike.add(1_MiB, i % 2 == 0 ? 1e-3 : 3e-3);
  EXPECT_EQ(alike.fit().latency, 0);
  EXPECT_NEAR(alike.fit().bytes_per_second, (1 << 20) / 2e-3, 1);

  TransferTimes faster_when_larger;
  faster_when_larger.add(4_KiB, 2e-3);
  faster_when_larger.add(1_MiB, 1e-3);
  EXPECT_EQ(faster_when_larger.fit().latency, 0);
  EXPECT_NEAR(faster_when_larger.fit().bytes_per_second, ((1 << 20) + 4096) / 3e-3, 1);

  TransferTimes steep;  // the line meets the axis of times below 0
  steep.add(4_KiB, 1e-6);
  steep.add(1_MiB, 1e-3);
  EXPECT_EQ(steep.fit().latency, 0);
  EXPECT_GT(steep.fit().bytes_per_second, 0);
}

TEST(TransferTimes, GoByTheNewest) {
  TransferTimes times;
  for (int i = 0; i < 1000; ++i) times.add(1_MiB, 1e-3);
  for (int i = 0; i < 1000; ++i) times.add(1_MiB, 4e-3);
  EXPECT_NEAR(times.fit().bytes_per_second, (1 << 20) / 4e-3, 0.02 * (1 << 20) / 4e-3);
}

}  // namespace
}  // namespace tensorpager::transfer
