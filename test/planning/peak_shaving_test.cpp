#include "tensorpager/planning/peak_shaving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../uniform_machines.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {
namespace {

class PeakShavingTest : public testing::Test {
 protected:
  std::uint64_t need() const { return groundwork_.liveness.need().count(); }
  std::vector<Drop> none() const { return std::vector<Drop>(gaps_.size()); }
  std::uint64_t highest_without(const std::vector<Drop>& dropped) const {
    return static_cast<std::uint64_t>(std::ranges::max(shaving_.live_without(dropped)));
  }
  /// The most bytes that are rebuilt within a twentieth of the window.
  std::uint64_t most_rebuilt_near_an_op(const std::vector<Drop>& dropped) const {
    std::uint64_t most = 0;
    for (const Droppable& one : gaps_) {
      std::uint64_t bytes = 0;
      for (std::size_t i = 0; i < gaps_.size(); ++i)
        if (dropped[i] != Drop::kKept && one.to <= gaps_[i].to && gaps_[i].to < one.to + trace_.ops.size() / 20)
          bytes += gaps_[i].bytes;
      most = std::max(most, bytes);
    }
    return most;
  }

  const trace::Trace trace_ = trace::read_trace_file(TENSORPAGER_TEST_DATA "/resnet50.trace");
  const Machine machine_ = uniform_machine("m40-12g");
  const Options options_;
  const Problem problem_{.trace = trace_, .machine = machine_, .budget = base::kUnlimited, .options = options_};
  const Groundwork groundwork_{problem_};
  const Recomputation recomputation_{trace_, groundwork_.liveness, groundwork_.op_times};
  const std::vector<Droppable>& gaps_ = recomputation_.droppable();
  const PeakShaving shaving_{groundwork_, gaps_};
  const std::vector<double>& costs_ = shaving_.costs(Arguments::kFreed);
};

TEST_F(PeakShavingTest, DropsNoMoreThanFits) {
  EXPECT_EQ(highest_without(none()), need());
  EXPECT_EQ(shaving_.shaved(none(), costs_, need()), none());
  const std::vector<Drop> dropped = shaving_.shaved(none(), costs_, need() * 6 / 10);
  EXPECT_LE(highest_without(dropped), need() * 6 / 10);
  const auto some = std::ranges::find(dropped, Drop::kOnce);
  ASSERT_NE(some, dropped.end());
  EXPECT_EQ(shaving_.shaved(dropped, costs_, need() * 6 / 10), dropped) << "it fits already";
}

TEST_F(PeakShavingTest, DropsWhatCostsLeast) {
  for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore})
    EXPECT_TRUE(std::ranges::is_sorted(shaving_.by_ratio(arguments), {},
                                       [&](std::uint32_t gap) { return shaving_.costs(arguments)[gap]; }));
  const std::vector<Drop> dropped = shaving_.shaved(none(), costs_, need() * 9 / 10);
  const auto first = static_cast<std::size_t>(std::ranges::find(dropped, Drop::kOnce) - dropped.begin());
  ASSERT_LT(first, dropped.size());
  std::vector<double> costs = costs_;
  costs[first] = 1e9;
  EXPECT_EQ(shaving_.shaved(none(), costs, need() * 9 / 10)[first], Drop::kKept);
}

TEST_F(PeakShavingTest, SpreadsWhatIsRebuiltIfACrowdCounts) {
  EXPECT_LT(most_rebuilt_near_an_op(shaving_.shaved(none(), costs_, need() * 6 / 10, 20)),
            most_rebuilt_near_an_op(shaving_.shaved(none(), costs_, need() * 6 / 10)));
}

}  // namespace
}  // namespace tensorpager::planning
