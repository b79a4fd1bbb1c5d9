#include "tensorpager/fake_cuda/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tensorpager/base/errors.h"
#include "tensorpager/fake_cuda/kernels.h"
#include "tensorpager/fake_cuda/streams.h"

namespace tensorpager::fake_cuda {
namespace {

WorldOptions two_small_cards() {
  WorldOptions options;
  options.card.devices = 2;
  options.card.memory = 1 << 20;
  return options;
}

TEST(World, EachDeviceHasItsMemoryAndItsQueues) {
  World world(two_small_cards());
  void* first = world.allocate(0, 1 << 20);
  EXPECT_EQ(world.allocate(0, 1), nullptr);
  void* second = world.allocate(1, 512);
  EXPECT_EQ(world.device_of(first), 0);
  EXPECT_EQ(world.device_of(second), 1);
  EXPECT_EQ(world.device_of(&world), -1);
  EXPECT_EQ(world.view(&world), &world);
  EXPECT_TRUE(world.free(first));
  EXPECT_FALSE(world.free(first));
  EXPECT_EQ(world.queue_of(nullptr), 0);
  current_device() = 1;
  EXPECT_EQ(world.queue_of(nullptr), World::kQueuesPerDevice);
  current_device() = 0;
  Stream stream(1, 0);
  const int queue = world.queue_of(&stream);
  EXPECT_GT(queue, World::kQueuesPerDevice) << "a stream stays on the device that it was made for";
  EXPECT_EQ(world.queue_of(&stream), queue);
  Stream other(1, 0);
  EXPECT_NE(world.queue_of(&other), queue);
}

TEST(World, MemoryThatIsFreedAndAllocatedAgainIsNew) {
  World world(two_small_cards());
  for (int queue = 0; queue < 3; ++queue) {
    void* block = world.allocate(0, 1 << 20);
    world.queues().enqueue(queue, "fill", {{block, 1 << 20, true}}, [] {});
    EXPECT_TRUE(world.free(block));
  }
  EXPECT_THAT(world.report(), testing::HasSubstr("\"races\": 0,"));
}

TEST(World, AQueryThatSaysYesOrdersWhatIsQueuedNext) {
  World world(two_small_cards());
  void* block = world.allocate(0, 512);
  world.queues().enqueue(0, "fill", {{block, 512, true}}, [] {});
  const Ticket filled = world.queues().record(0);
  world.queues().enqueue(1, "early", {{block, 512, false}}, [] {});
  EXPECT_THAT(world.report(), testing::HasSubstr("\"races\": 1,"));
  EXPECT_TRUE(world.queues().is_done(filled));
  world.queues().enqueue(2, "read", {{block, 512, false}}, [] {});
  EXPECT_THAT(world.report(), testing::HasSubstr("\"races\": 1,"));
}

TEST(World, RegisteredMemoryIsCheckedWhileItIsRegistered) {
  World world(two_small_cards());
  static char buffer[512];
  EXPECT_TRUE(world.register_pinned(buffer, sizeof buffer));
  EXPECT_FALSE(world.register_pinned(buffer, sizeof buffer));
  world.queues().enqueue(0, "write", {{buffer, 512, true}}, [] {});
  world.queues().enqueue(1, "write", {{buffer, 512, true}}, [] {});
  EXPECT_THAT(world.report(), testing::HasSubstr("\"races\": 1, \"first_race\": \"write on queue 1 writes pinned"));
  EXPECT_TRUE(world.unregister_pinned(buffer));
  EXPECT_FALSE(world.unregister_pinned(buffer));
}

TEST(FailureInjection, FailsTheNthCallOnce) {
  FailureInjection failures;
  EXPECT_FALSE(failures.must_fail("cudaMalloc"));
  failures.fail_all("cudaMalloc:3,cudaMemcpyAsync:1");
  EXPECT_TRUE(failures.must_fail("cudaMemcpyAsync"));
  EXPECT_FALSE(failures.must_fail("cudaMemcpyAsync"));
  EXPECT_FALSE(failures.must_fail("cudaMalloc"));
  EXPECT_FALSE(failures.must_fail("cudaMalloc"));
  EXPECT_TRUE(failures.must_fail("cudaMalloc"));
  EXPECT_FALSE(failures.must_fail("cudaMalloc"));
  for (const char* wrong : {"cudaMalloc", "cudaMalloc:", "cudaMalloc:0", "cudaMalloc:x", "a:1,,b:1"})
    EXPECT_THROW(failures.fail_all(wrong), base::InvalidArgument) << wrong;
}

/// The process's World, which is made from the environment once.
class ProcessWorld : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TENSORPAGER_CARD", "name=\"small\" memory=16777216", 1);
    setenv("TENSORPAGER_EMULATE_SEED", "3", 1);
    World::get();
  }
  void TearDown() override { tensorpager_fake_cuda_clear_error(); }
};

TEST_F(ProcessWorld, RunsWhatIsLaunchedButNotWhatIsSkipped) {
  int ran = 0;
  EXPECT_FALSE(tensorpager_fake_cuda_skip(true));
  launch(nullptr, "skipped", {}, [&] { ran += 100; });
  EXPECT_TRUE(tensorpager_fake_cuda_skip(false));
  launch(nullptr, "run", {}, [&] { ++ran; });
  World::get().queues().wait_for_all();
  EXPECT_EQ(ran, 1);
}

TEST_F(ProcessWorld, KernelsFindDeviceBytesInTheirView) {
  World& world = World::get();
  void* block = world.allocate(0, 512);
  launch(nullptr, "fill", {{block, 512, true}}, [=] { std::memset(kernel_view(block), 5, 512); });
  world.queues().wait_for_all();
  EXPECT_EQ(static_cast<char*>(kernel_view(block))[511], 5);
  EXPECT_TRUE(world.free(block));
}

TEST_F(ProcessWorld, KeepsAFailureUntilItIsCleared) {
  launch(nullptr, "index", {}, [] { throw std::out_of_range("out of range"); });
  World::get().queues().wait_for_all();
  EXPECT_EQ(World::get().queues().failure(0), "index: out of range");
  tensorpager_fake_cuda_clear_error();
  EXPECT_EQ(World::get().queues().failure(0), "");
}

TEST_F(ProcessWorld, ReportsOneJsonObject) {
  const std::string report = tensorpager_fake_cuda_report();
  EXPECT_THAT(report,
              testing::StartsWith("{\"card\": \"\\\"small\\\"\", \"devices\": 1, \"schedule\": \"3\", \"kernels\": "));
  EXPECT_THAT(report, testing::EndsWith("}"));
}

TEST_F(ProcessWorld, AForkedChildCannotUseIt) {
  EXPECT_FALSE(World::is_forked_child());
  const pid_t child = fork();
  if (child == 0) {
    EXPECT_TRUE(World::is_forked_child());
    EXPECT_THROW(launch(nullptr, "late", {}, [] {}), std::logic_error);
    EXPECT_STREQ(tensorpager_fake_cuda_report(), "{}");
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tensorpager::fake_cuda
