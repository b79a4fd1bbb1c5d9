// Tries a request again that did not fit, if somebody who has pins can be made to release them.
#pragma once

#include <type_traits>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/pager/floor.h"

namespace tensorpager::pager {

class Relief {
 public:
  /// It must outlive this.
  explicit Relief(Floor& floor) : floor_(floor) {}

  /// `relief` is called with no lock held: it releases pins, waiting for their holders if it must, and returns whether
  /// another try is worthwhile. Set once, before the first session.
  void set(bool (*relief)()) { relief_ = relief; }

  template <typename Attempt>
  std::invoke_result_t<Attempt> with(Attempt&& attempt) {
    for (;;) {
      const base::Bytes floor = floor_.bytes();
      try {
        return attempt();
      } catch (const base::OverBudget& error) {
        if (relief_ == nullptr || error.asked() > error.budget() || !relief_()) throw;
      }
      floor_.set(floor);  // a refused request does not count
    }
  }

 private:
  Floor& floor_;
  bool (*relief_)() = nullptr;
};

}  // namespace tensorpager::pager
