#include "tensorpager/replay/rebuilding.h"

#include <unordered_set>
#include <utility>

#include "tensorpager/replay/rerun.h"

namespace tensorpager::replay {

Rebuilding::Rebuilding(pager::Pager& pager, Recipes& recipes, const Product& product)
    : pager_(pager), recipes_(recipes) {
  // Depth first, without recursion: chains are long.
  struct Visit {
    Step step;
    std::size_t next_input = 0;
  };
  std::vector<Visit> path;
  path.push_back({.step = {product.call, {}}});
  std::unordered_set<const Call*> seen{product.call.get()};
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.next_input == visit.step.call->inputs.size()) {
      steps_.push_back(std::move(visit.step));
      path.pop_back();
      continue;
    }
    const Call::Input& input = visit.step.call->inputs[visit.next_input++];
    if (!input.needs_contents()) continue;
    const Product maker =
        recipes_.storage_of(input) ? recipes_.product_of_dropped(input.contents.block) : input.made_by;
    if (!maker) continue;
    visit.step.uses.push_back(input.contents);
    ++uses_[input.contents];
    if (seen.insert(maker.call.get()).second) path.push_back({.step = {maker.call, {}}});
  }
}

void Rebuilding::run() {
  for (const Step& step : steps_) run(step);
}

void Rebuilding::run(const Step& step) {
  const auto is_last_use = [&](const Contents& contents) { return uses_.at(contents) == 1; };
  const auto any = [](const Call::Output&) { return true; };
  std::vector<Made::One> outputs =
      rerun(pager_, recipes_, *step.call, made_, {.may_overwrite = is_last_use, .rebuilds = any});
  for (const Contents& used : step.uses) --uses_.at(used);
  made_.remove([&](const Made::One& one) { return uses_.at(one.contents) == 0; });
  for (Made::One& one : outputs) {
    const auto uses = uses_.find(one.contents);
    if (uses != uses_.end() && uses->second > 0) made_.add(std::move(one));
  }
}

}  // namespace tensorpager::replay
