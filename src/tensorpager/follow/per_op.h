// A list for each op, side by side in one array. Made op after op, and never changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tensorpager::follow {

template <typename Element>
class PerOp {
 public:
  /// To the list of the op that is under way.
  void add(const Element& element) { all_.push_back(element); }
  /// The next op's list begins.
  void end_op() { begins_.push_back(static_cast<std::uint32_t>(all_.size())); }

  std::span<const Element> operator[](std::uint32_t op) const {
    return {all_.data() + begins_[op], begins_[op + 1] - begins_[op]};
  }

 private:
  std::vector<Element> all_;
  std::vector<std::uint32_t> begins_{0};  // by op
};

}  // namespace tensorpager::follow
