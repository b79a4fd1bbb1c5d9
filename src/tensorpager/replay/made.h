// Storages that replays made, and that are no block's of the program: what other replays need, until they have run.
#pragma once

#include <c10/core/Storage.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tensorpager/replay/recipe.h"

namespace tensorpager::replay {

class Made {
 public:
  struct One {
    Contents contents;
    c10::Storage storage;
  };

  /// Null if there is none.
  const c10::Storage* find(const Contents& contents) const {
    const auto found = std::ranges::find(all_, contents, &One::contents);
    return found == all_.end() ? nullptr : &found->storage;
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const One& one : all_) visit(one);
  }
  void add(One one) { all_.push_back(std::move(one)); }
  /// Frees those of which it is true.
  template <typename Predicate>
  void remove(Predicate is_to_go) {
    std::vector<One> gone;
    for (One& one : all_)
      if (is_to_go(std::as_const(one))) gone.push_back(std::move(one));
    std::erase_if(all_, [](const One& one) { return !one.storage; });
  }

 private:
  std::vector<One> all_;
};

}  // namespace tensorpager::replay
