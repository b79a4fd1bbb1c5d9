// Whether this thread runs a leaf: what the leaf's kernel calls is a part of it.
#pragma once

#include <utility>

namespace tensorpager::replay {

class InLeaf {
 public:
  InLeaf() : before_(std::exchange(t_is_in_leaf, true)) {}
  ~InLeaf() { t_is_in_leaf = before_; }
  InLeaf(const InLeaf&) = delete;
  InLeaf& operator=(const InLeaf&) = delete;

  static bool is_set() { return t_is_in_leaf; }

 private:
  inline static constinit thread_local bool t_is_in_leaf = false;
  bool before_;
};

}  // namespace tensorpager::replay
