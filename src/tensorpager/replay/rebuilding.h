// One rebuild: the calls that make a dropped block's contents, in an order in which each finds what it needs.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "tensorpager/pager/pager.h"
#include "tensorpager/replay/recipes.h"

namespace tensorpager::replay {

class Rebuilding {
 public:
  /// Of what is dropped and what is gone. Both must outlive this.
  Rebuilding(pager::Pager& pager, Recipes& recipes, const Product& product);

  /// Runs all calls. Each finds its inputs resident and pinned, and all dropped blocks among its outputs are rebuilt.
  /// Throws OverBudget, IoError, or what an op throws; what was rebuilt by then stays so.
  void run();

 private:
  using Made = std::vector<c10::Storage>;  // by output

  struct Step {
    std::shared_ptr<const Call> call;
    std::vector<const Call*> makers;  // of its inputs that are made here
  };
  struct Found {
    c10::Storage storage;
    bool is_ours = false;  // made here, and no block's of the program
  };

  void run(const Step& step);
  Found find(const Call::Input& input) const;
  c10::Storage memory_for(const Call::Input& input, Found found) const;
  void take_over(pager::Block& block, c10::Storage storage);

  pager::Pager& pager_;
  Recipes& recipes_;
  std::vector<Step> steps_;                              // in order
  std::unordered_map<const Call*, std::uint32_t> uses_;  // yet to come, of what a call makes
  std::unordered_map<const Call*, Made> made_;           // that is no block's of the program
};

}  // namespace tensorpager::replay
