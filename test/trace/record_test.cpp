#include "tensorpager/trace/record.h"

#include <gtest/gtest.h>

#include "tensorpager/base/errors.h"

namespace tensorpager::trace {
namespace {

using namespace base;

StorageId id(unsigned i) { return static_cast<StorageId>(i); }

/// What check says of it; empty if nothing.
std::string wrong_with(const Trace& trace) {
  try {
    check(trace);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

// 0 is a parameter, 1 a gradient that the window begins with, 2 lives within the window.
Trace valid() {
  return {.storages = {{.bytes = 8_KiB, .entry = true}, {.bytes = 8_KiB, .entry = true}, {.bytes = 4_KiB}},
          .ops = {{.name = "zero", .deaths = {id(1)}},
                  {.name = "forward", .reads = {id(0)}, .births = {id(2)}},
                  {.name = "backward", .reads = {id(0), id(2)}, .births = {id(1)}, .deaths = {id(2)}}}};
}

TEST(Trace, MayBeginBetweenTheDeathAndTheBirthOfAStorage) { EXPECT_EQ(wrong_with(valid()), ""); }

TEST(Trace, KeepsToTheLivesOfItsStorages) {
  const auto changed = [](auto change) {
    Trace trace = valid();
    change(trace);
    return wrong_with(trace);
  };
  const std::string op1 = "trace: op 1 (forward): ";
  EXPECT_EQ(changed([](Trace& t) { t.ops.clear(); }), "trace: end: there is no op");
  EXPECT_EQ(changed([](Trace& t) { t.ops[1].reads = {id(7)}; }), "trace: op 1: storage 7 is none of the trace");
  EXPECT_EQ(changed([&](Trace& t) { t.ops[1].reads = {id(2)}; }), op1 + "reads: storage 2 is not born yet");
  EXPECT_EQ(changed([&](Trace& t) { t.ops[1].writes = {id(1)}; }), op1 + "writes: storage 1 is dead");
  EXPECT_EQ(changed([&](Trace& t) { t.ops[1].reads = {id(0), id(0)}; }), op1 + "reads: storage 0 is there twice");
  EXPECT_EQ(changed([&](Trace& t) { t.ops[1].births = {id(0)}; }), op1 + "births: storage 0 is alive already");
  EXPECT_EQ(changed([](Trace& t) { t.ops[2].births = {id(2)}; }),
            "trace: op 2 (backward): births: storage 2 is alive already");
  EXPECT_EQ(changed([](Trace& t) { t.ops[1].deaths = {id(2)}; }), "trace: op 2 (backward): reads: storage 2 is dead");
  EXPECT_EQ(changed([](Trace& t) {
              t.ops[1].deaths = {id(2)};
              t.ops[2] = {.name = "backward", .births = {id(1), id(2)}, .deaths = {id(2)}};
            }),
            "trace: op 2 (backward): births: storage 2 is born a second time; give each life a storage of its own");
  EXPECT_EQ(changed([](Trace& t) {
              t.ops[2].deaths = {id(1), id(2)};
            }),
            "trace: op 2 (backward): deaths: storage 1 dies a second time, and was alive at the window's entry");
  EXPECT_EQ(changed([](Trace& t) { t.ops[2].deaths = {}; }),
            "trace: end: storage 2 is alive at the window's end but not at its entry");
  EXPECT_EQ(changed([](Trace& t) { t.ops[2].births = {}; }),
            "trace: end: storage 1 is alive at the window's entry but not at its end");
  EXPECT_EQ(changed([](Trace& t) { t.storages.push_back({}); }), "trace: end: storage 3 is never born");
}

}  // namespace
}  // namespace tensorpager::trace
