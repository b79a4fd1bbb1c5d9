// One rebuild: the calls that make a dropped block's contents, in an order in which each finds what it needs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tensorpager/pager/pager.h"
#include "tensorpager/replay/made.h"
#include "tensorpager/replay/recipes.h"

namespace tensorpager::replay {

class Rebuilding {
 public:
  /// Of what is dropped and what is gone. Both must outlive this.
  Rebuilding(pager::Pager& pager, Recipes& recipes, const Product& product);

  /// Runs all calls; all dropped blocks among their outputs are rebuilt. Throws OverBudget, IoError, or what an op
  /// throws; what was rebuilt by then stays so.
  void run();

 private:
  struct Step {
    std::shared_ptr<const Call> call;
    std::vector<Contents> uses;  // of what is made here
  };

  void run(const Step& step);

  pager::Pager& pager_;
  Recipes& recipes_;
  std::vector<Step> steps_;                 // in order
  std::map<Contents, std::uint32_t> uses_;  // yet to come, of what is made here
  Made made_;
};

}  // namespace tensorpager::replay
