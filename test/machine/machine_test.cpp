#include "tensorpager/machine/machine.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tensorpager/base/errors.h"
#include "tensorpager/machine/machine_io.h"

namespace tensorpager::machine {
namespace {

using namespace base;
using namespace std::chrono_literals;

constexpr const char* kByHand = R"(tensorpager-machine 1
name tiny
memory 1000000
measured scale=0.5
ops bytes_per_second=1e9 launch_ns=100 float32=2e9
card compute=8.6 multiprocessors=84 memory=1048576
link out bytes_per_second=1e9 latency_ns=10
link out from=1000 bytes_per_second=2e9
link in handling_ns=7 bytes_per_second=4e9
end
)";

Machine parse(const std::string& text) {
  std::istringstream in(text);
  return read_machine(in, "a.machine");
}

std::string error_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  try {
    parse(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(Machine, TimesTransfersByDirectionAndSize) {
  const Machine machine = parse(kByHand);
  EXPECT_EQ(machine.out.time_of(999_B), 1009ns);
  EXPECT_EQ(machine.out.time_of(1000_B), 510ns);
  EXPECT_EQ(machine.in.time_of(1000_B), 250ns);
  EXPECT_EQ(machine.out.fastest(), 2e9);
  EXPECT_EQ(machine.out.handling, 0ns);
  EXPECT_EQ(machine.in.handling, 7ns);
  EXPECT_EQ(with_link_share(machine, 0.5).in.time_of(1000_B), 500ns);
}

TEST(Machine, TimesOpsByTheirWorkElseAsMeasured) {
  const Machine machine = parse(kByHand);
  EXPECT_EQ(machine.time_of({.flops = 4000, .moved = 1000_B}), 2100ns);
  EXPECT_EQ(machine.time_of({.flops = 400, .moved = 1000_B}), 1100ns);
  EXPECT_EQ(machine.time_of({.time = 800ns}), 400ns);
  EXPECT_EQ(machine.time_of({}), 0ns);
  // Without a rate for its precision only its bytes count.
  EXPECT_EQ(machine.time_of({.flops = 4000, .moved = 1000_B, .precision = trace::Precision::kFloat64}), 1100ns);
  EXPECT_EQ(Machine().time_of({.time = 800ns, .flops = 9}), 800ns);
}

TEST(Machine, TimesEachClassOfOpsByItsRate) {
  std::string text = kByHand;
  const Machine machine = parse(text.replace(text.find("card"), 0, "rates attention float32=1e9 tf32=4e9\n"));
  const auto time_of = [&](OpClass op_class, Precision precision) {
    return machine.time_of({.flops = 4000, .op_class = op_class, .precision = precision});
  };
  EXPECT_EQ(time_of(OpClass::kProduct, Precision::kFloat32), 2100ns);
  EXPECT_EQ(time_of(OpClass::kProduct, Precision::kTf32), 2100ns) << "no rate of its own: as float32";
  EXPECT_EQ(time_of(OpClass::kConvolution, Precision::kFloat32), 2100ns) << "no rate of its own: as products";
  EXPECT_EQ(time_of(OpClass::kAttention, Precision::kFloat32), 4100ns);
  EXPECT_EQ(time_of(OpClass::kAttention, Precision::kTf32), 1100ns);
}

TEST(Machine, TakesBlocksAwayAndMapsThemAgainForAReplay) {
  Machine machine;
  machine.out.handling = 30ns;
  machine.in.handling = 70ns;
  EXPECT_EQ(machine.time_of({.time = 800ns, .rebuilds = 2}), 1000ns);
  EXPECT_EQ(with_link_share(machine, 0.5).time_of({.time = 800ns, .rebuilds = 2}), 1000ns);
}

TEST(Machine, ComparesTwoTracesOfOneWindow) {
  const trace::Trace there{.ops = {{.name = "a", .time = 10ns}, {.name = "b", .time = 30ns}}};
  trace::Trace here = there;
  here.ops[1].time = 90ns;
  EXPECT_DOUBLE_EQ(time_scale_between(there, here), 2.5);
  here.ops[0].name = "c";
  EXPECT_THROW(time_scale_between(there, here), InvalidArgument);
  here.ops.pop_back();
  EXPECT_THROW(time_scale_between(there, here), InvalidArgument);
  EXPECT_THROW(time_scale_between(there, {.ops = {{.name = "a"}, {.name = "b"}}}), InvalidArgument) << "no times";
}

TEST(Machine, NamedOnesHaveTheirStatedRates) {
  const Machine h200 = named_machine("h200-141g");
  EXPECT_EQ(h200.memory, 141_GiB);
  EXPECT_EQ(h200.in.time_of(Bytes(50'000'000)), 1ms + 10us);
  EXPECT_EQ(h200.time_of({.moved = Bytes(4'080'000'000)}), 1ms + 3us);
  // 78 % of 67 TFLOPS; in TF32, where a program allows it, 80 % of 495; convolutions have 13 % of it without that.
  EXPECT_EQ(h200.time_of({.flops = 52'260'000'000}), 1ms + 3us);
  EXPECT_EQ(h200.time_of({.flops = 396'000'000'000, .precision = Precision::kTf32}), 1ms + 3us);
  EXPECT_EQ(h200.time_of({.flops = 64'350'000'000, .op_class = OpClass::kConvolution}), 1ms + 3us);
  EXPECT_THROW(named_machine("tpu"), InvalidArgument);
  for (const std::string& name : machine_names()) EXPECT_EQ(find_machine(name).name, name);
}

TEST(MachineIo, WritesWhatItReads) {
  EXPECT_EQ(write_machine(parse(write_machine(parse(kByHand)))), write_machine(parse(kByHand)));
  EXPECT_EQ(parse(write_machine(parse(kByHand))).in.handling, 7ns);
  for (const std::string& name : machine_names()) {
    const std::string text = write_machine(named_machine(name));
    EXPECT_EQ(write_machine(parse(text)), text);
  }
}

TEST(MachineIo, ReadsWhatAProgramSeesOfACard) {
  const Machine machine = parse(kByHand);
  ASSERT_TRUE(machine.card);
  EXPECT_EQ(machine.card->major, 8u);
  EXPECT_EQ(machine.card->minor, 6u);
  EXPECT_EQ(machine.card->multiprocessors, 84u);
  EXPECT_EQ(machine.card->memory, 1048576_B);
  EXPECT_EQ(error_of(kByHand, "compute=8.6", "compute=eight"),
            "a.machine:6: compute: 'eight' is no compute capability; write one such as 9.0");
  for (const std::string& name : machine_names()) {
    const Machine named = named_machine(name);
    EXPECT_LT(named.card->memory, named.memory) << name;
    EXPECT_GT(named.card->memory.count(), named.memory.count() / 10 * 9) << name;
  }
}

TEST(MachineIo, NamesFileLineAndField) {
  EXPECT_EQ(error_of(kByHand, "link in", "link up"), "a.machine:9: direction: is none of out, in");
  EXPECT_EQ(error_of(kByHand, "2e9\nlink in", "0\nlink in"),
            "a.machine:8: bytes_per_second: '0' is not a number above 0");
  EXPECT_EQ(error_of(kByHand, "card compute=8.6 multiprocessors=84 memory=1048576", "rates pooling float32=1"),
            "a.machine:6: class: is none of product, convolution, attention, recurrent");
  EXPECT_EQ(error_of(kByHand, "compute=8.6", "compute=0.6"),
            "a.machine:6: compute: '0.6': there is no such card; write one such as 9.0");
  EXPECT_EQ(error_of(kByHand, "multiprocessors=84", "multiprocessors=0"),
            "a.machine:6: multiprocessors: 0: a card has one or more");
  EXPECT_EQ(error_of(kByHand, "memory=1048576", "memory=1048575"),
            "a.machine:6: memory: 1048575: a card has 1 MiB or more");
  EXPECT_EQ(error_of(kByHand, "from=1000", "from=0"), "a.machine:8: from: is not above that of the step before");
  EXPECT_EQ(error_of(kByHand, "link in handling_ns=7 bytes_per_second=4e9\n", ""), "a.machine:9: link in: is missing");
  EXPECT_EQ(error_of(kByHand, "memory", "mammoth"),
            "a.machine:3: record: 'mammoth' is none of name, memory, measured, ops, rates, card, link, end");
}

}  // namespace
}  // namespace tensorpager::machine
