#include "tensorpager/follow/agenda.h"

#include <gtest/gtest.h>

#include "small_plan.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;

constexpr StorageId kSmall{2};

trace::Trace small_trace() {
  return {
      .granule = 4_KiB,
      .storages = {{.bytes = 64_KiB, .entry = true}, {.bytes = 20_KiB}, {.bytes = 1_KiB}},
      .ops = {{.name = "make", .reads = {kWeight}, .births = {kActivation, kSmall}},
              {.name = "other", .reads = {kSmall}},
              {.name = "use", .reads = {kActivation, kSmall}, .writes = {kWeight}, .deaths = {kActivation, kSmall}}}};
}

TEST(Agenda, LaysRowsOutByOp) {
  const Agenda agenda(small_trace(), small_plan());
  EXPECT_EQ(agenda.beginning(0).size(), 2u);
  EXPECT_TRUE(agenda.beginning(1).empty());
  ASSERT_EQ(agenda.beginning(2).size(), 1u);
  EXPECT_EQ(agenda.beginning(2)[0], 2u);
  ASSERT_EQ(agenda.leaving(1).size(), 1u);
  EXPECT_EQ(agenda.leaving(1)[0], 1u);
  EXPECT_EQ(agenda.leaving(3).size(), 2u);
}

TEST(Agenda, NamesOnlyBirthsThatArePaged) {
  const Agenda agenda(small_trace(), small_plan());
  ASSERT_EQ(agenda.births(0).size(), 1u);
  EXPECT_EQ(agenda.births(0)[0].storage, kActivation);
  EXPECT_EQ(agenda.births(0)[0].size, 20_KiB);
}

TEST(Agenda, KnowsAnOpByItsNameAndItsPagedArguments) {
  const Agenda agenda(small_trace(), small_plan());
  OpSignature other{.name = name_hash("other")};
  EXPECT_EQ(agenda.signature(1), other);
  other.add(1_KiB);  // never paged
  EXPECT_EQ(agenda.signature(1), other);
  OpSignature use{.name = name_hash("use")};
  use.add(64_KiB);
  use.add(20_KiB);
  EXPECT_EQ(agenda.signature(2), use);
  trace::Trace renewing = small_trace();
  renewing.ops[2].renews = {kWeight};
  OpSignature without_weight{.name = name_hash("use")};
  without_weight.add(20_KiB);
  EXPECT_EQ(Agenda(renewing, small_plan()).signature(2), without_weight) << "the op is not given what is renewed";
  OpSignature other_way{.name = name_hash("use")};
  other_way.add(20_KiB);
  other_way.add(64_KiB);
  EXPECT_EQ(use, other_way);
  OpSignature other_sizes{.name = name_hash("use")};
  other_sizes.add(42_KiB);
  other_sizes.add(42_KiB);
  EXPECT_NE(use, other_sizes);
  EXPECT_NE(name_hash("use"), name_hash("used"));
}

TEST(Agenda, SaysWhenAStorageIsUsedNextOverTheWindowsEndToo) {
  const Agenda agenda(small_trace(), small_plan());
  EXPECT_EQ(agenda.next_use(kActivation, 0), 2u);
  EXPECT_EQ(agenda.next_use(kActivation, 2), std::nullopt) << "it is dead, and born anew";
  EXPECT_EQ(agenda.next_use(kWeight, 0), 2u);
  EXPECT_EQ(agenda.next_use(kWeight, 2), 1u);
}

TEST(Agenda, RefusesThePlanOfAnotherTrace) {
  trace::Trace shorter = small_trace();
  shorter.ops.pop_back();
  EXPECT_THROW(Agenda(shorter, small_plan()), InvalidArgument);
  trace::Trace fewer = small_trace();
  fewer.storages.resize(1);
  fewer.ops = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  EXPECT_THROW(Agenda(fewer, small_plan()), InvalidArgument);
}

}  // namespace
}  // namespace tensorpager::follow
