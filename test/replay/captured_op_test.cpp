// Calls are captured and replayed on the memory of their own arguments, and compared with what torch gives.
#include "tensorpager/replay/captured_op.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <gtest/gtest.h>

namespace tensorpager::replay {
namespace {

c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

struct Captured {
  std::vector<c10::Storage> memory;
  std::optional<CapturedOp> op;

  Captured(const c10::OperatorHandle& handle, const std::vector<c10::IValue>& arguments)
      : op(CapturedOp::capture(handle, op_rule(handle), arguments, base::Device::kHost, memory)) {}
  at::Tensor replay() const { return op->replay(memory).at(0).toTensor(); }
};

TEST(CapturedOp, GivesTheSameResultFromTheSameMemory) {
  const at::Tensor x = at::randn({3, 4}).t(), y = at::randn({4, 3}).slice(0, 0, 4);
  const Captured captured(find("aten::add", "Tensor"), {x, y, 2.5});
  EXPECT_TRUE(captured.replay().equal(at::add(x, y, 2.5)));
  EXPECT_EQ(captured.replay().strides(), at::add(x, y, 2.5).strides());
}

TEST(CapturedOp, GivesViewsOfOneStorageOneNumber) {
  const at::Tensor x = at::randn({4, 4});
  const Captured captured(find("aten::add", "Tensor"), {x[0], x[1], 1});
  EXPECT_EQ(captured.memory.size(), 1U);
  EXPECT_TRUE(captured.replay().equal(x[0] + x[1]));
}

TEST(CapturedOp, ReadsTheMemoryThatItIsGiven) {
  const at::Tensor x = at::ones({4}), other = at::full({4}, 7.F);
  const Captured captured(find("aten::neg", ""), {x});
  const std::vector<c10::Storage> memory{other.storage()};
  EXPECT_TRUE(captured.op->replay(memory).at(0).toTensor().equal(-other));
}

TEST(CapturedOp, WritesTheMemoryThatItIsGivenAndNoOther) {
  const at::Tensor x = at::ones({4}), other = at::full({4}, 7.F);
  const Captured captured(find("aten::neg_", ""), {x});
  const std::vector<c10::Storage> memory{other.storage()};
  captured.op->replay(memory);
  EXPECT_TRUE(other.equal(at::full({4}, -7.F)));
  EXPECT_TRUE(x.equal(at::ones({4})));
}

TEST(CapturedOp, KeepsAWrappedNumberOne) {
  at::Tensor number = at::scalar_tensor(1.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  const Captured captured(find("aten::mul", "Tensor"), {at::ones({2}), number});
  EXPECT_EQ(captured.replay().scalar_type(), at::kFloat);
}

TEST(CapturedOp, KeepsTheConjugateBit) {
  const at::Tensor x = at::randn({3}, at::kComplexFloat);
  const Captured captured(find("aten::mul", "Tensor"), {x.conj(), x});
  EXPECT_TRUE(captured.replay().equal(x.conj() * x));
}

TEST(CapturedOp, KeepsListsAndWhatIsAbsentInThem) {
  const at::Tensor x = at::arange(12).reshape({3, 4}), index = at::tensor({2, 0});
  const Captured cat(find("aten::cat", ""), {c10::List<at::Tensor>({x, x}), 1});
  EXPECT_TRUE(cat.replay().equal(at::cat({x, x}, 1)));
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(std::nullopt);
  indices.push_back(index);
  const Captured indexed(find("aten::index", "Tensor"), {x, indices});
  EXPECT_TRUE(indexed.replay().equal(x.index_select(1, index)));
}

TEST(CapturedOp, KeepsUndefinedTensors) {
  const at::Tensor x = at::randn({2, 3, 4});
  const std::vector<c10::IValue> arguments{x,    at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(),
                                           true, 0.1,          1e-5,         false};
  const Captured captured(find("aten::batch_norm", ""), arguments);
  EXPECT_TRUE(captured.replay().equal(at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false)));
}

TEST(CapturedOp, RefusesWhatIsMoreThanBytes) {
  const c10::OperatorHandle neg = find("aten::neg", "");
  EXPECT_FALSE(Captured(neg, {at::eye(3).to_sparse()}).op);
  EXPECT_FALSE(Captured(neg, {at::_efficientzerotensor({3})}).op);
  EXPECT_FALSE(Captured(neg, {at::empty({3}, at::kMeta)}).op);
  EXPECT_FALSE(Captured(neg, {at::detail::getDefaultCPUGenerator()}).op);
  EXPECT_FALSE(Captured(neg, {c10::Device("meta")}).op);
  EXPECT_TRUE(Captured(neg, {at::eye(3)}).op);
}

TEST(CapturedOp, DrawsAgainWhatWasDrawnAndLeavesTheGeneratorAlone) {
  const at::Tensor drawn = at::empty({100}), other = at::zeros({100});
  const Captured captured(find("aten::normal_", ""), {drawn, 0.0, 1.0, std::optional<at::Generator>()});
  drawn.normal_();
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  captured.op->replay(std::vector<c10::Storage>{other.storage()});
  EXPECT_TRUE(other.equal(drawn));
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(state));
}

TEST(CapturedOp, RecordsNoGradient) {
  const at::Tensor x = at::randn({3}).requires_grad_();
  const Captured captured(find("aten::tanh", ""), {x});
  EXPECT_FALSE(captured.replay().requires_grad());
  EXPECT_TRUE(captured.replay().equal(x.tanh()));
}

TEST(CapturedOp, LeavesNoTraceOfTheArgumentsThatARunDropped) {
  // The references that this op returns are to arguments that only the stack holds.
  const at::Tensor x = at::randn({1, 1, 4, 4});
  const std::vector<std::int64_t> two{2, 2}, none{0, 0}, one{1, 1};
  const Captured captured(find("aten::max_pool2d_with_indices", "out"),
                          {x, two, two, none, one, false, at::empty({0}), at::empty({0}, at::kLong)});
  EXPECT_TRUE(captured.replay().equal(at::max_pool2d(x, 2)));
}

TEST(Ambient, IsAsItWasForAReplayAndAfterItAsItIs) {
  const at::Tensor x = at::arange(3);
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const Captured captured(find("aten::add", "Scalar"), {x, 1.5, 1});
  c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(captured.replay().scalar_type(), at::kDouble);
  EXPECT_EQ(at::add(x, 1.5).scalar_type(), at::kFloat);
}

/// Each switch that every machine has, set to something else.
std::vector<Ambient> changed_ones(const Ambient& now) {
  std::vector<Ambient> all;
  const auto with = [&](auto change) { change(all.emplace_back(now)); };
  with([](Ambient& a) { a.threads += 1; });
  with([](Ambient& a) { a.mkldnn = !a.mkldnn; });
  with([](Ambient& a) { a.mkldnn_deterministic = !a.mkldnn_deterministic; });
  with([](Ambient& a) { a.deterministic = !a.deterministic; });
  with([](Ambient& a) { a.deterministic = a.deterministic_warns = true; });
  with([](Ambient& a) { a.fills_uninitialized = !a.fills_uninitialized; });
  with([](Ambient& a) { a.flushes_denormals = !a.flushes_denormals; });
  with([](Ambient& a) { a.default_type = at::kDouble; });
  with([](Ambient& a) { a.on_cpu.is_on = !a.on_cpu.is_on; });
  with([](Ambient& a) { a.on_cpu.type = at::kHalf; });
  with([](Ambient& a) { a.on_cuda.is_on = !a.on_cuda.is_on; });
  with([](Ambient& a) { a.on_cuda.type = at::kBFloat16; });
  with([](Ambient& a) { a.autocast_caches = !a.autocast_caches; });
  return all;
}

TEST(Ambient, IsSetAndPutBackSwitchBySwitch) {
  const Ambient before = Ambient::now();
  for (const Ambient& wanted : changed_ones(before)) {
    ASSERT_NE(wanted, before);
    {
      ASSERT_TRUE(wanted.can_be_set());
      const AmbientGuard guard(wanted);
      EXPECT_EQ(Ambient::now(), wanted);
    }
    EXPECT_EQ(Ambient::now(), before);
  }
}

TEST(Ambient, CannotBeSetIfASwitchOfCudaDiffers) {
  const Ambient of_cuda = Ambient::now(base::Device::kCuda), of_cpu = Ambient::now();
  at::globalContext().setBenchmarkCuDNN(!of_cuda.cuda->cudnn_benchmark);
  EXPECT_FALSE(of_cuda.can_be_set());
  EXPECT_TRUE(of_cpu.can_be_set()) << "the CPU's kernels do not depend on it";
  at::globalContext().setBenchmarkCuDNN(of_cuda.cuda->cudnn_benchmark);
  EXPECT_TRUE(of_cuda.can_be_set());
}

TEST(OpRule, IsForTheKernelsOfADevice) {
  const OpRule& backward = op_rule(find("aten::max_pool2d_with_indices_backward", ""));
  EXPECT_NE(backward.on(base::Device::kHost).purity, Purity::kNever);
  EXPECT_EQ(backward.on(base::Device::kCuda).purity, Purity::kNever) << "adds in any order there";
  const OpRule& draw = op_rule(find("aten::bernoulli_", "float"));
  EXPECT_EQ(draw.on(base::Device::kHost).purity, Purity::kDraws);
  EXPECT_EQ(draw.on(base::Device::kCuda).purity, Purity::kNever);
}

TEST(Ambient, CannotBeSetIfFloatPrecisionsDiffer) {
  const Ambient before = Ambient::now();
  const auto set = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, precision);
  };
  set(at::Float32Precision::BF16);
  EXPECT_NE(Ambient::now(), before);
  EXPECT_FALSE(before.can_be_set());
  set(before.float32[2]);
  EXPECT_TRUE(before.can_be_set());
}

}  // namespace
}  // namespace tensorpager::replay
