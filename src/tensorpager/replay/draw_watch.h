// Whether a replay drew from the CPU's default generator. It must not: the program's own draws would be others.
#pragma once

#include "tensorpager/replay/generator_state.h"

namespace tensorpager::replay {

class DrawWatch {
 public:
  /// Whether the generator is another than at the beginning. If it is, puts it back.
  bool undo_draws() const {
    if (before_ == GeneratorState::of_default()) return false;
    before_.put_into(at::detail::getDefaultCPUGenerator());
    return true;
  }

 private:
  const GeneratorState before_ = GeneratorState::of_default();
};

}  // namespace tensorpager::replay
