// The free ranges of the budget by address, each with the fence that its next user waits for. Neighbours are merged.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "fence.h"
#include "waits.h"

namespace mini_pager {

class FreeSpace {
 public:
  struct Range {
    char* at = nullptr;
    Fence fence;
  };

  explicit FreeSpace(Waits waits) : waits_(waits) {}

  void add(char* at, std::size_t bytes, Fence fence);
  /// The lowest range that is large enough; nullopt if there is none.
  std::optional<Range> take(std::size_t bytes);

 private:
  struct Free {
    std::size_t bytes = 0;
    Fence fence;
  };
  using Ranges = std::map<char*, Free>;

  void merge_with_next(Ranges::iterator range);

  Waits waits_;
  Ranges ranges_;
};

}  // namespace mini_pager
