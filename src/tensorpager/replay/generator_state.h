// What a random generator of the CPU would draw next: an op that draws is a function of its arguments and of this.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <optional>

namespace tensorpager::replay {

class GeneratorState {
 public:
  /// Of a generator of the CPU, which other threads may draw from meanwhile.
  explicit GeneratorState(const at::Generator& generator);
  static GeneratorState of_default() { return GeneratorState(at::detail::getDefaultCPUGenerator()); }

  void put_into(const at::Generator& generator) const;
  /// A generator of its own in this state.
  at::Generator generator() const;
  bool operator==(const GeneratorState& other) const;

 private:
  at::mt19937_data_pod engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
};

}  // namespace tensorpager::replay
