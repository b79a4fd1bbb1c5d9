// A net that is trained and evaluated, op by op, over the real pager and under a guide.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../pager/pager_fixture.h"
#include "tensorpager/guide/guide.h"
#include "tensorpager/pager/recorded_op.h"

namespace tensorpager::guide {

using namespace base;
using pager::Access;
using pager::Block;

/// A net of some layers that is trained: each layer's op reads its weight and what came before, and makes what comes
/// next; on the way back that is freed, and the weight is written.
class GuideTest : public pager::PagerTest {
 protected:
  static constexpr std::size_t kLayers = 8;

  void start_guided(Bytes budget, Guide::Options options = {.waits = true, .refines = false},
                    std::unique_ptr<transfer::Queues> queues = pager::ram_queues()) {
    options.say = [this](const std::string& line) { said_.push_back(line); };
    start(budget, std::move(queues));
    guide_.emplace(pager_, std::move(options));
    pager_.set_sink(&make_sink());
    for (std::size_t i = 0; i < kLayers; ++i) weights_.push_back(&make(kBlock, seeds_[i] = i));
  }
  /// Another, which has seen nothing yet.
  void restart_guide(Guide::Options options) {
    guide_->stop();
    pager_.set_sink(nullptr);
    options.say = [this](const std::string& line) { said_.push_back(line); };
    guide_.emplace(pager_, std::move(options));
    pager_.set_sink(&make_sink());
  }
  /// Of the pager, for a new guide: the guide itself, or what tells it.
  virtual base::EventSink& make_sink() { return *guide_; }
  void TearDown() override {
    guide_->stop();
    pager_.set_sink(nullptr);
    PagerTest::TearDown();
  }

  /// One op: reads and checks blocks, writes one if any, makes one of this seed if `makes`.
  Block* run_op(const std::string& name, std::vector<std::pair<Block*, std::uint64_t>> read, Block* written = nullptr,
                std::uint64_t seed = 0, bool makes = false) {
    names_.push_back(std::make_unique<std::string>(name));
    pager_.boundaries().op_begins();
    pager::PinSet pins(pager_, pager::Temporaries::kKeep);
    pager::RecordedOp recorded;
    for (const auto& [block, expected] : read)
      pins.see(*block, Access::kRead), recorded.touch(block->number, Access::kRead);
    if (written != nullptr) pins.see(*written, Access::kWrite), recorded.touch(written->number, Access::kWrite);
    pins.follow(base::name_hash(name));
    pins.admit();
    if (base::EventSink* const sink = pager_.sink())
      recorded.begin(*sink, pins, OpFacts{.name = *names_.back(), .backward = name == "backward"});
    for (const auto& [block, expected] : read) EXPECT_TRUE(pager::is_filled(*block, expected)) << name;
    if (written != nullptr) pager::fill(*written, seed);
    return makes ? &make(kBlock, seed) : nullptr;
  }

  void forward(const std::string& kind) {
    outputs_.push_back(run_op(kind, {{weights_[0], seeds_[0]}}, nullptr, 100, true));
    for (std::size_t i = 1; i < kLayers; ++i) {
      run_op("item", {});  // of something small
      outputs_.push_back(
          run_op(kind, {{weights_[i], seeds_[i]}, {outputs_[i - 1], 100 + i - 1}}, nullptr, 100 + i, true));
    }
  }
  void run_micro_step() {
    forward("layer");
    for (std::size_t i = kLayers; i-- > 0;) {
      run_op("backward", {{outputs_[i], 100 + i}}, weights_[i], ++seeds_[i]);
      destroy(*outputs_[i]);
    }
    outputs_.clear();
  }
  void train() {
    run_micro_step();
    guide_->hint(Hint::kStepEnds);
  }
  void train_by_micro_steps() {
    for (int i = 0; i < 3; ++i) run_micro_step();
    guide_->hint(Hint::kOptimizerBegins);
    for (std::size_t i = 0; i < kLayers; ++i) run_op("update", {}, weights_[i], ++seeds_[i]);
    guide_->hint(Hint::kOptimizerEnds);
  }
  void evaluate(const std::string& kind = "layer") {
    forward(kind);
    run_op("score", {{outputs_.back(), 100 + kLayers - 1}});
    for (Block* block : outputs_) destroy(*block);
    outputs_.clear();
    guide_->hint(Hint::kStepEnds);
  }

  /// Gradients live from one of two windows into the other, in which they are used, and into the next, which makes
  /// others.
  void make_gradients() {
    for (std::size_t i = 0; i < kLayers; ++i) {
      if (gradients_[i] != nullptr) destroy(*gradients_[i]);
      gradients_[i] = run_op("backward", {{weights_[i], seeds_[i]}}, nullptr, 200 + i, true);
    }
  }
  void use_gradients() {
    for (std::size_t i = 0; i < kLayers; ++i) run_op("update", {{gradients_[i], 200 + i}}, weights_[i], ++seeds_[i]);
  }

  std::optional<Guide> guide_;
  std::vector<std::string> said_;
  std::vector<Block*> weights_, outputs_;
  std::vector<Block*> gradients_ = std::vector<Block*>(kLayers);
  std::uint64_t seeds_[kLayers] = {};

 private:
  std::vector<std::unique_ptr<std::string>> names_;
};

}  // namespace tensorpager::guide
