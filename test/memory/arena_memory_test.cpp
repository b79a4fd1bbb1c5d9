#include "tensorpager/memory/arena_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "../device/world_streams.h"

namespace tensorpager::memory {
namespace {

using namespace base;

std::vector<unsigned char> numbered(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
  return bytes;
}

class HostArenaTest : public testing::Test {
 protected:
  arena::AddressSpace space_;
  HostArena arena_{space_};
};

TEST_F(HostArenaTest, OpensWhatIsNotOpenYetAndNothingElse) {
  std::byte* const first = arena_.open({.offset = 0, .bytes = 4_KiB});
  first[0] = std::byte{1};
  const std::uint64_t calls = arena_.system_calls();
  EXPECT_EQ(arena_.open({.offset = 8192, .bytes = 4_KiB}), first + 8192);
  EXPECT_EQ(arena_.system_calls(), calls) << "beside it";
  std::byte* const over_an_edge = arena_.open({.offset = (64_MiB).count() - 4096, .bytes = 8_KiB});
  std::memset(over_an_edge, 2, 8192);
  EXPECT_EQ(arena_.system_calls(), calls + 2);
  EXPECT_DEATH(first[(100_MiB).count()] = std::byte{1}, "") << "behind them";
}

TEST_F(HostArenaTest, MovesBytesToARangeThatOverlapsTheirs) {
  const std::vector<unsigned char> bytes = numbered(10000);
  std::byte* const at = arena_.open({.offset = 0, .bytes = 64_KiB});
  std::memcpy(at, bytes.data(), bytes.size());
  arena_.move(at + 4096, at, Bytes(bytes.size()));
  EXPECT_EQ(std::memcmp(at + 4096, bytes.data(), bytes.size()), 0);
}

class DeviceArenaTest : public testing::TestWithParam<const char*> {
 protected:
  /// What the device has there, once it has done all.
  std::vector<unsigned char> bytes_at(const std::byte* at, std::size_t count) {
    streams_.finish();
    std::vector<unsigned char> bytes(count);
    std::memcpy(bytes.data(), streams_.view(at), count);
    return bytes;
  }
  void write(std::byte* at, const std::vector<unsigned char>& bytes) {
    streams_.launch("write", {{at, bytes.size(), true}},
                    [this, at, bytes] { std::memcpy(streams_.view(at), bytes.data(), bytes.size()); });
  }

  device::WorldStreams streams_{GetParam()};
  device::StreamTimeline timeline_{streams_};
  DeviceArena arena_{streams_, timeline_, 1_MiB};
};

TEST_P(DeviceArenaTest, GivesMemoryOfItsOwnToWhatDoesNotFit) {
  EXPECT_EQ(arena_.open({.offset = 512, .bytes = 4_KiB}), arena_.begin() + 512);
  std::byte* const apart = arena_.open({.offset = (1_MiB).count() - 512, .bytes = 1_KiB});
  EXPECT_TRUE(apart < arena_.begin() || apart >= arena_.begin() + arena_.size().count());
  write(apart, numbered(1024));
  EXPECT_EQ(bytes_at(apart, 1024), numbered(1024));
  arena_.close(apart);
  arena_.close(arena_.begin() + 512);  // stays
  write(arena_.begin() + 512, numbered(4096));
  EXPECT_EQ(bytes_at(arena_.begin() + 512, 4096), numbered(4096));
}

TEST_P(DeviceArenaTest, MovesBytesEitherWayToARangeThatOverlapsTheirs) {
  const std::vector<unsigned char> bytes = numbered(10240);
  for (const int distance : {512, 4096, 10240, 20480}) {
    std::byte* const low = arena_.begin();
    std::byte* const high = arena_.begin() + distance;
    write(low, bytes);
    arena_.move(high, low, Bytes(bytes.size()));
    EXPECT_EQ(bytes_at(high, bytes.size()), bytes) << distance << " up";
    arena_.move(low, high, Bytes(bytes.size()));
    EXPECT_EQ(bytes_at(low, bytes.size()), bytes) << distance << " down";
  }
  EXPECT_NE(streams_.report().find("\"races\": 0"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Schedules, DeviceArenaTest, testing::Values("now", "1", "2", "3"));

}  // namespace
}  // namespace tensorpager::memory
