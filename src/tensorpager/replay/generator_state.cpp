#include "tensorpager/replay/generator_state.h"

#include <ATen/Context.h>

#include <mutex>

namespace tensorpager::replay {

std::variant<GeneratorState::Mersenne, GeneratorState::Philox> GeneratorState::read(const at::Generator& generator) {
  const std::lock_guard lock(generator.unsafeGetGeneratorImpl()->mutex_);
  if (generator.device().type() != at::kCPU)
    return Philox{.device = generator.device(), .seed = generator.current_seed(), .offset = generator.get_offset()};
  auto& is = *at::check_generator<at::CPUGeneratorImpl>(generator);
  return Mersenne{.engine = is.engine().data(),
                  .next_float = is.next_float_normal_sample(),
                  .next_double = is.next_double_normal_sample()};
}

GeneratorState::GeneratorState(const at::Generator& generator) : state_(read(generator)) {}

void GeneratorState::put_into(const at::Generator& generator) const {
  c10::GeneratorImpl& to = *generator.unsafeGetGeneratorImpl();
  const std::lock_guard lock(to.mutex_);
  if (const auto* const philox = std::get_if<Philox>(&state_)) {
    to.set_current_seed(philox->seed);
    to.set_offset(philox->offset);
    return;
  }
  const auto& mersenne = std::get<Mersenne>(state_);
  auto& is = *at::check_generator<at::CPUGeneratorImpl>(generator);
  at::mt19937 engine;
  engine.set_data(mersenne.engine);
  is.set_engine(engine);
  is.set_next_float_normal_sample(mersenne.next_float);
  is.set_next_double_normal_sample(mersenne.next_double);
}

at::Generator GeneratorState::generator() const {
  const auto* const philox = std::get_if<Philox>(&state_);
  at::Generator made = philox != nullptr ? at::globalContext().defaultGenerator(philox->device).clone()
                                         : at::detail::createCPUGenerator();
  put_into(made);
  return made;
}

bool GeneratorState::operator==(const GeneratorState& other) const {
  const auto* const philox = std::get_if<Philox>(&state_);
  const auto* const others = std::get_if<Philox>(&other.state_);
  if (philox != nullptr || others != nullptr) return philox != nullptr && others != nullptr && *philox == *others;
  const auto& a = std::get<Mersenne>(state_);
  const auto& b = std::get<Mersenne>(other.state_);
  return a.engine.left_ == b.engine.left_ && a.engine.next_ == b.engine.next_ && a.engine.state_ == b.engine.state_ &&
         a.next_float == b.next_float && a.next_double == b.next_double;
}

}  // namespace tensorpager::replay
