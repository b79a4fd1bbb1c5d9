// What a random generator would draw next: an op that draws is a function of its arguments and of this.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <variant>

namespace tensorpager::replay {

class GeneratorState {
 public:
  /// Of a generator of the CPU or of a CUDA device, which other threads may draw from meanwhile. Throws c10::Error
  /// while a CUDA graph is captured.
  explicit GeneratorState(const at::Generator& generator);
  static GeneratorState of_default() { return GeneratorState(at::detail::getDefaultCPUGenerator()); }
  /// A generator of the same device.
  void put_into(const at::Generator& generator) const;
  /// A generator of its own in this state.
  at::Generator generator() const;
  bool operator==(const GeneratorState& other) const;

 private:
  struct Mersenne {
    at::mt19937_data_pod engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };
  /// Philox counts: all that it draws follows from these.
  struct Philox {
    c10::Device device;
    std::uint64_t seed, offset;
    bool operator==(const Philox&) const = default;
  };
  static std::variant<Mersenne, Philox> read(const at::Generator& generator);

  std::variant<Mersenne, Philox> state_;
};

}  // namespace tensorpager::replay
