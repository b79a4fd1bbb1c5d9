// Whether a replay drew from the CPU's default generator. It must not: the program's own draws would be others.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace tensorpager::replay {

class DrawWatch {
 public:
  DrawWatch();

  /// Whether the generator is another than at the beginning. If it is, puts it back.
  bool undo_draws();

 private:
  struct State {
    at::mt19937_data_pod engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };
  static State now();
  static bool is_same(const State& one, const State& other);

  State before_;
};

}  // namespace tensorpager::replay
