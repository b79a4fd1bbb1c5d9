// What is known of how blocks were made, and what may be dropped. No session: the inputs of calls are copies, or made
// by other calls.
#include "tensorpager/replay/recipes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tensorpager::replay {
namespace {

class RecipesTest : public testing::Test {
 protected:
  RecipesTest() {
    a_.number = 1;
    b_.number = 2;
  }
  /// A call that makes these blocks, each with the contents that it has now.
  std::shared_ptr<Call> made(std::initializer_list<pager::Block*> blocks, std::uint64_t row = 0) {
    const c10::OperatorHandle neg = c10::Dispatcher::singleton().findSchemaOrThrow("aten::neg", "");
    std::vector<c10::Storage> memory;
    const std::vector<c10::IValue> arguments{small_};
    auto call = std::make_shared<Call>(*CapturedOp::capture(neg, op_rule(neg), arguments, base::Device::kHost, memory));
    call->row = row;
    call->inputs.resize(1);
    call->inputs.front().copy = memory.front();
    for (pager::Block* const block : blocks)
      call->outputs.push_back({.contents = recipes_.contents_of(*block).first, .storage = {}});
    return call;
  }
  std::shared_ptr<Call> added(std::initializer_list<pager::Block*> blocks, std::uint64_t row = 0) {
    auto call = made(blocks, row);
    recipes_.add(call);
    return call;
  }
  void write(std::uint64_t block) {
    recipes_.begin_write(std::array{block});
    recipes_.end_write(std::array{block});
  }

  const at::Tensor small_ = at::ones({2});
  pager::Block a_, b_;
  Recipes recipes_;
};

TEST_F(RecipesTest, DropsOnlyWhatACallIsKnownToHaveMade) {
  EXPECT_FALSE(recipes_.hold(a_));
  const auto call = added({&a_});
  EXPECT_TRUE(recipes_.hold(a_));
  EXPECT_EQ(recipes_.product_of_dropped(a_.number).call, call);
  EXPECT_FALSE(recipes_.product_of_dropped(b_.number));
}

TEST_F(RecipesTest, GivesABlockOtherContentsByAWrite) {
  added({&a_});
  const Contents before = recipes_.contents_of(a_).first;
  EXPECT_TRUE(a_.is_versioned);
  recipes_.begin_write(std::array{a_.number});
  EXPECT_FALSE(recipes_.hold(a_));  // somebody writes it
  recipes_.end_write(std::array{a_.number});
  EXPECT_EQ(recipes_.contents_of(a_.number), (Contents{a_.number, before.version + 1}));
  EXPECT_FALSE(recipes_.contents_of(a_).second);
  EXPECT_FALSE(recipes_.hold(a_));
}

TEST_F(RecipesTest, ForgetsACallWhoseBlockWasWrittenMeanwhile) {
  const auto late = made({&a_});
  write(a_.number);
  recipes_.add(late);
  EXPECT_FALSE(recipes_.hold(a_));
}

TEST_F(RecipesTest, NeverDropsWhatIsExposed) {
  added({&a_});
  EXPECT_TRUE(recipes_.expose(a_));
  EXPECT_FALSE(recipes_.hold(a_));
  added({&a_});
  EXPECT_FALSE(recipes_.hold(a_));
}

TEST_F(RecipesTest, DropsWhatAPlansRowMadeOnceTheRowIsCompared) {
  const auto call = added({&a_}, 7);
  EXPECT_FALSE(recipes_.is_compared(*call));
  EXPECT_FALSE(recipes_.hold(a_));
  recipes_.note_compared(7);
  EXPECT_TRUE(recipes_.is_compared(*call));
  EXPECT_TRUE(recipes_.hold(a_));
  recipes_.release(a_.number);
  recipes_.forget_compared();
  EXPECT_FALSE(recipes_.hold(a_));
}

TEST_F(RecipesTest, TellsWhichOutputsOfACallAreDropped) {
  const auto call = added({&a_, &b_});
  EXPECT_TRUE(recipes_.hold(b_));
  EXPECT_EQ(recipes_.dropped_outputs(*call),
            (std::vector<std::optional<DroppedBlock>>{std::nullopt, DroppedBlock{b_.number, b_.size}}));
  recipes_.release(b_.number);
  EXPECT_EQ(recipes_.dropped_outputs(*call), (std::vector<std::optional<DroppedBlock>>(2)));
}

TEST_F(RecipesTest, TellsWhatIsGone) {
  added({&a_});
  const Contents made = recipes_.contents_of(a_.number);
  EXPECT_FALSE(recipes_.is_gone(made));
  ASSERT_TRUE(recipes_.hold(a_));
  EXPECT_TRUE(recipes_.is_gone(made));
  recipes_.release(a_.number);
  write(a_.number);
  EXPECT_TRUE(recipes_.is_gone(made));
  EXPECT_FALSE(recipes_.is_gone(recipes_.contents_of(a_.number)));
  recipes_.died(a_.number);
  EXPECT_TRUE(recipes_.is_gone(recipes_.contents_of(a_.number)));
}

TEST_F(RecipesTest, DropsWhatIsMadeFromWhatIsGoneIfThatCanBeMade) {
  const auto first = added({&a_});
  auto second = made({&b_});
  second->inputs.front().copy = {};
  second->inputs.front().contents = first->outputs.front().contents;
  second->inputs.front().made_by = {first, 0};
  recipes_.add(second);
  recipes_.died(a_.number);
  EXPECT_TRUE(recipes_.hold(b_));
  EXPECT_TRUE(recipes_.dependents_of(a_.number).empty());  // nothing needs to be kept
}

TEST_F(RecipesTest, EndsAChainOf512Calls) {
  const auto call = made({&a_});
  call->depth = 511;
  recipes_.add(call);
  EXPECT_EQ(recipes_.contents_of(a_).second.call, call);
  call->depth = 512;
  EXPECT_FALSE(recipes_.contents_of(a_).second);  // the next call needs the block itself,
  EXPECT_TRUE(recipes_.hold(a_));                 // which may be dropped
}

TEST_F(RecipesTest, ForgetsABlockThatDied) {
  added({&a_});
  ASSERT_TRUE(recipes_.hold(a_));
  recipes_.died(a_.number);
  EXPECT_FALSE(recipes_.product_of_dropped(a_.number));
  EXPECT_FALSE(recipes_.hold(a_));
}

}  // namespace
}  // namespace tensorpager::replay
