#include "tensorpager/cli/machine_measure.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tensorpager/base/errors.h"
#include "tensorpager/machine/machine_io.h"

namespace tensorpager::cli {
namespace {

class MeasuredMachine : public testing::TestWithParam<const char*> {};

TEST_P(MeasuredMachine, ReadsBackAndHasPlausibleLinks) {
  const Measured measured = measure_machine(GetParam() == std::string("ram") ? "ram" : testing::TempDir());
  std::istringstream text(machine::write_machine(measured.machine));
  const machine::Machine machine = machine::read_machine(text, "here.machine");
  EXPECT_EQ(machine.name, "this-machine");
  EXPECT_EQ(machine.memory, base::physical_memory());
  EXPECT_EQ(machine.byte_rate, 0) << "op times are taken as they were recorded";
  for (const machine::Link* link : {&machine.out, &machine.in}) {
    ASSERT_FALSE(link->steps.empty());
    EXPECT_EQ(link->steps.front().from, base::Bytes(0));
    EXPECT_GT(link->latency.count(), 0);
    for (const machine::Link::Step& step : link->steps) {
      EXPECT_GT(step.bytes_per_second, 1e3);
      EXPECT_LT(step.bytes_per_second, 1e13);
    }
    EXPECT_GT(link->time_of(base::Bytes(std::uint64_t{64} << 20)), link->time_of(base::Bytes(4096)));
  }
  EXPECT_GT(measured.copy_rate, 1e6);
}

INSTANTIATE_TEST_SUITE_P(Tiers, MeasuredMachine, testing::Values("ram", "file"),
                         [](const auto& one) { return std::string(one.param); });

TEST(MeasureMachine, DirectoryThatIsNotThereIsTold) {
  EXPECT_THROW(measure_machine("/no/such/directory"), base::IoError);
}

}  // namespace
}  // namespace tensorpager::cli
