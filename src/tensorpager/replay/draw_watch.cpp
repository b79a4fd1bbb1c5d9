#include "tensorpager/replay/draw_watch.h"

#include <ATen/core/Generator.h>

#include <mutex>

namespace tensorpager::replay {
namespace {

at::CPUGeneratorImpl& generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

}  // namespace

DrawWatch::DrawWatch() : before_(now()) {}

DrawWatch::State DrawWatch::now() {
  at::CPUGeneratorImpl& is = generator();
  const std::lock_guard lock(is.mutex_);
  return {is.engine().data(), is.next_float_normal_sample(), is.next_double_normal_sample()};
}

bool DrawWatch::is_same(const State& one, const State& other) {
  return one.engine.left_ == other.engine.left_ && one.engine.next_ == other.engine.next_ &&
         one.engine.state_ == other.engine.state_ && one.next_float == other.next_float &&
         one.next_double == other.next_double;
}

bool DrawWatch::undo_draws() {
  if (is_same(before_, now())) return false;
  at::CPUGeneratorImpl& is = generator();
  const std::lock_guard lock(is.mutex_);
  at::mt19937 engine;
  engine.set_data(before_.engine);
  is.set_engine(engine);
  is.set_next_float_normal_sample(before_.next_float);
  is.set_next_double_normal_sample(before_.next_double);
  return true;
}

}  // namespace tensorpager::replay
