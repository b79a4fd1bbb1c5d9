// What a sink is told of ops and blocks, by the pager itself.
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pager_fixture.h"
#include "tensorpager/pager/recorded_op.h"

namespace tensorpager::pager {
namespace {

using namespace base;

/// Writes down what it is told; blocks by their number.
class Notes final : public EventSink {
 public:
  Ticket op_begins(const OpFacts& facts, std::span<const Touch> touched) noexcept override {
    std::this_thread::sleep_for(takes);
    list.push_back("begins " + std::string(facts.name) + text(touched));
    return ++ops;
  }
  void op_touches(Ticket op, std::span<const Touch> touched) noexcept override {
    list.push_back("op " + std::to_string(op) + " touches" + text(touched));
  }
  Ticket op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override {
    list.push_back("op " + std::to_string(op) + " ends");
    time = took;
    return op;
  }
  void op_timed(Ticket, std::chrono::nanoseconds) noexcept override {}
  void block_born(Ticket op, const NewBlock& block) noexcept override {
    std::this_thread::sleep_for(takes);
    list.push_back("op " + std::to_string(op) + " makes " + std::to_string(block.number) + ": " +
                   std::to_string(block.size.count()) + " charged " + std::to_string(block.charged.count()));
  }
  void block_died(Ticket op, std::uint64_t number) noexcept override {
    std::this_thread::sleep_for(takes);
    list.push_back("op " + std::to_string(op) + " frees " + std::to_string(number));
  }
  void slab_grew(Bytes slab) noexcept override { list.push_back("slab " + std::to_string(slab.count())); }
  void hint(Hint) noexcept override {}

  std::vector<std::string> list;
  std::chrono::nanoseconds time{-1};
  std::chrono::milliseconds takes{0};  // to begin an op, and to note a birth or a death

 private:
  static std::string text(std::span<const Touch> touched) {
    std::string all;
    for (const Touch& touch : touched) all += (touch.written ? " w" : " r") + std::to_string(touch.block);
    return all;
  }
  Ticket ops = 0;
};

using List = std::vector<std::string>;

class SinkTest : public PagerTest {
 protected:
  void begin(std::optional<RecordedOp>& op, const PinSet& pins, const char* name, std::vector<Block*> read) {
    op.emplace();
    for (const Block* block : read) op->touch(block->number, Access::kRead);
    op->begin(notes, pins, OpFacts{.name = name});
  }
  Notes notes;
};

TEST_F(SinkTest, IsToldOfOpsAndOfWhatTheyMakeAndFree) {
  start(1_GiB);
  pager_.set_sink(&notes);
  Block& first = pager_.storages().create(20'000_B);
  {
    PinSet pins(pager_, Temporaries::kKeep);
    pins.see(first, Access::kRead);
    pins.admit();
    std::optional<RecordedOp> op, inner;
    begin(op, pins, "outer", {&first});
    Block& second = pager_.storages().create(16_KiB);
    PinSet inner_pins(pager_, Temporaries::kKeep);
    begin(inner, inner_pins, "inner", {&second});
    inner.reset();
    pager_.storages().destroy(second);
  }
  pager_.storages().destroy(first);
  pager_.set_sink(nullptr);
  pager_.storages().destroy(pager_.storages().create(16_KiB));  // told to nobody
  EXPECT_EQ(notes.list,
            (List{"slab 0", "op 0 makes 1: 20000 charged 20480", "begins outer r1", "op 1 makes 2: 16384 charged 16384",
                  "op 1 touches r2", "op 1 frees 2", "op 1 ends", "op 0 frees 1"}));
  EXPECT_GE(notes.time.count(), 0);
}

TEST_F(SinkTest, WhatItTakesItselfIsNoTimeOfTheOp) {
  start(1_GiB);
  notes.takes = std::chrono::milliseconds(300);
  pager_.set_sink(&notes);
  {
    PinSet pins(pager_, Temporaries::kKeep);
    std::optional<RecordedOp> op;
    begin(op, pins, "op", {});
    pager_.storages().destroy(pager_.storages().create(16_KiB));
  }
  pager_.set_sink(nullptr);
  EXPECT_LT(notes.time, notes.takes);
}

TEST_F(SinkTest, IsToldFirstOfWhatIsThere) {
  start(1_GiB);
  Block& first = pager_.storages().create(16_KiB);
  Block& second = pager_.storages().create(32_KiB);
  pager_.page_out_all();
  pager_.set_sink(&notes);
  EXPECT_EQ(notes.list, (List{"op 0 makes 1: 16384 charged 16384", "op 0 makes 2: 32768 charged 32768", "slab 0"}));
  pager_.set_sink(nullptr);
  pager_.storages().destroy(first), pager_.storages().destroy(second);
}

/// Whichever thread frees them, and whatever it does just then.
TEST_F(SinkTest, IsToldOfTheProgramsBlocksAndNotOfThoseOfReplays) {
  start(1_GiB);
  pager_.set_sink(&notes);
  Block& first = pager_.storages().create(16_KiB);
  t_state.replaying = Replaying::kOnDemand;
  Block& made = pager_.storages().create(16_KiB);
  pager_.storages().destroy(first);
  t_state.replaying = Replaying::kNo;
  pager_.set_sink(&notes);
  pager_.storages().destroy(made);
  pager_.set_sink(nullptr);
  EXPECT_EQ(notes.list, (List{"slab 0", "op 0 makes 1: 16384 charged 16384", "op 0 frees 1", "slab 0"}));
}

TEST_F(SinkTest, OpOfAPythonKernelReadsWhatThatKernelWasGiven) {
  start(1_GiB);
  Block& argument = pager_.storages().create(16_KiB);
  pager_.set_sink(&notes);
  notes.list.clear();
  {
    PinSet python(pager_, Temporaries::kLetGo);
    python.see(argument, Access::kRead);
    python.admit();
    PinSet pins(pager_, Temporaries::kKeep);
    std::optional<RecordedOp> op;
    begin(op, pins, "mul", {});
  }
  EXPECT_EQ(notes.list, (List{"begins mul r1", "op 1 ends"}));
  pager_.set_sink(nullptr);
  pager_.storages().destroy(argument);
}

TEST_F(SinkTest, IsToldNothingInAFork) {
  start(1_GiB);
  pager_.set_sink(&notes);
  pager_.before_fork();
  const pid_t child = fork();
  pager_.after_fork(child == 0);
  if (child == 0) _exit(pager_.sink() == nullptr ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pager_.sink(), &notes);
  pager_.set_sink(nullptr);
}

}  // namespace
}  // namespace tensorpager::pager
