#include "tensorpager/guide/candidates.h"

#include <algorithm>
#include <string>
#include <vector>

#include "guide_fixture.h"
#include "tensorpager/guide/profile.h"

namespace tensorpager::guide {
namespace {

class CandidatesTest : public GuideTest {
 protected:
  std::vector<Candidate> candidates() {
    classes_ = trace::classify_windows(guide_->stream());
    return candidates_in(classes_, guide_->stream());
  }
  std::vector<Candidate> related() {
    std::vector<Candidate> found = candidates();
    relate(found, classes_, guide_->stream());
    return found;
  }
  static std::size_t known_storages(const Candidate& one) {
    return static_cast<std::size_t>(
        std::ranges::count_if(one.trace.storages, [](const auto& it) { return it.identity.has_value(); }));
  }

  std::vector<trace::WindowClass> classes_;
};

TEST_F(CandidatesTest, AreClassesThatCameAgainTheLargestShareFirst) {
  start_guided(room_for(20), {.plans = false});
  for (int step = 0; step < 4; ++step) {
    evaluate();
    train();
    train();
  }
  evaluate("once");
  const std::vector<Candidate> found = candidates();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].trace.ops.size(), 2 * kLayers);
  EXPECT_EQ(found[0].signatures.size(), 2 * kLayers);
  EXPECT_EQ(found[1].trace.ops.size(), kLayers + 1);
  EXPECT_GT(found[0].share, found[1].share);
  EXPECT_FALSE(found[0].is_similar);
}

TEST_F(CandidatesTest, AreNotWhatMakesUpLessThanAFiftiethOfTheOps) {
  start_guided(room_for(20), {.plans = false});
  const auto evaluate_twice_beside = [&](int steps) {
    for (int i = 0; i < 2; ++i) {
      for (int step = 0; step < steps; ++step) train();
      evaluate();
    }
  };
  evaluate_twice_beside(10);
  EXPECT_EQ(candidates().size(), 2u);
  restart_guide({.plans = false});
  evaluate_twice_beside(40);
  EXPECT_EQ(candidates().size(), 1u);
}

TEST_F(CandidatesTest, AreSixAtMost) {
  start_guided(room_for(20), {.plans = false});
  for (int step = 0; step < 3; ++step) {
    for (int kind = 0; kind < 8; ++kind) evaluate(std::to_string(kind));
  }
  EXPECT_EQ(candidates().size(), 6u);
}

TEST_F(CandidatesTest, OfWindowsThatAreAlikeAreOne) {
  start_guided(room_for(20), {.plans = false});
  for (int step = 0; step < 12; ++step) {
    for (int i = 0; i < step % 7; ++i) run_op("note", {{weights_[step % kLayers], seeds_[step % kLayers]}});
    train();
  }
  const std::vector<Candidate> found = candidates();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_similar);
  EXPECT_GT(found[0].share, 0.5);
}

// Both read the weights, and nothing else lives over a window's end.
TEST_F(CandidatesTest, KnowWhatIsTheSameBlockInEach) {
  start_guided(room_for(20), {.plans = false});
  for (int step = 0; step < 6; ++step) {
    train();
    evaluate();
  }
  for (const Candidate& one : candidates()) EXPECT_EQ(known_storages(one), 0u);
  const std::vector<Candidate> found = related();
  ASSERT_EQ(found.size(), 2u);
  for (const Candidate& one : found) EXPECT_EQ(known_storages(one), kLayers);
}

TEST_F(CandidatesTest, HaveTheSlabsThatThereAreNow) {
  start_guided(room_for(20), {.plans = false});
  for (int step = 0; step < 4; ++step) train();
  pager_.storages().acquire_slab_chunk(64_KiB);
  for (int step = 0; step < 4; ++step) evaluate();
  const std::vector<Candidate> found = related();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].trace.slab, found[1].trace.slab);
  EXPECT_EQ(found[0].trace.slab, guide_->stream().ops.back().slab);
}

TEST_F(CandidatesTest, AreAlsoWhatWasKnownBefore) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  Profile known = analyse(guide_->stream(), pager_.budget(), machine_of({})).value();
  ASSERT_EQ(known.classes.size(), 1u);
  std::vector<Candidate> found = candidates();
  add_known(found, known);
  EXPECT_EQ(found.size(), 1u) << "it came again itself";

  restart_guide({.plans = false});
  for (int step = 0; step < 6; ++step) evaluate();
  found = candidates();
  add_known(found, known);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].signatures, known.classes.front().agenda->signatures());
  EXPECT_EQ(found[1].share, 0.0);

  known.origin = Profile::Origin::kUser;
  found = candidates();
  add_known(found, known);
  EXPECT_EQ(found.size(), 1u) << "its blocks are unknown";

  known.origin = Profile::Origin::kAnalysis;
  known.classes.front().is_similar = true;
  found = candidates();
  add_known(found, known);
  EXPECT_EQ(found.size(), 1u) << "a newer one would stand for it";
}

}  // namespace
}  // namespace tensorpager::guide
