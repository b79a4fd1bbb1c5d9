#include "waits.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string>

namespace mini_pager {
namespace {

/// In the order of `Wait`.
constexpr std::array<const char*, static_cast<std::size_t>(Wait::kCount)> kNames = {
    "reuse",
    "compute-before-page-out",
    "page-out-before-reuse",
    "page-out-before-page-in",
    "page-in-before-compute",
    "uses-on-other-streams",
    "fence-on-stream-of-use",
    "both-fences-of-merge",
    "page-in-before-each-stream",
    "dirty-after-write",
};

}  // namespace

Waits Waits::from_environment() {
  Waits waits;
  const char* listed = std::getenv("MINI_PAGER_SKIP");
  std::istringstream names(listed ? listed : "");
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    TORCH_CHECK(found != kNames.end(), "MINI_PAGER_SKIP: there is no wait ", name,
                "; test/emulation/waits.cpp lists them");
    waits.skipped_.set(static_cast<std::size_t>(found - kNames.begin()));
  }
  return waits;
}

}  // namespace mini_pager
