#include "tensorpager/replay/generator_state.h"

#include <mutex>

namespace tensorpager::replay {

GeneratorState::GeneratorState(const at::Generator& generator) {
  auto& is = *at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard lock(is.mutex_);
  engine_ = is.engine().data();
  next_float_ = is.next_float_normal_sample();
  next_double_ = is.next_double_normal_sample();
}

void GeneratorState::put_into(const at::Generator& generator) const {
  auto& is = *at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard lock(is.mutex_);
  at::mt19937 engine;
  engine.set_data(engine_);
  is.set_engine(engine);
  is.set_next_float_normal_sample(next_float_);
  is.set_next_double_normal_sample(next_double_);
}

at::Generator GeneratorState::generator() const {
  at::Generator made = at::detail::createCPUGenerator();
  put_into(made);
  return made;
}

bool GeneratorState::operator==(const GeneratorState& other) const {
  return engine_.left_ == other.engine_.left_ && engine_.next_ == other.engine_.next_ &&
         engine_.state_ == other.engine_.state_ && next_float_ == other.next_float_ &&
         next_double_ == other.next_double_;
}

}  // namespace tensorpager::replay
