// Ops as C++ extensions have them: kernels that read and write raw addresses, called through torch's dispatcher or past
// it. Compiled by test_cpp_ops.py.
#include <ATen/Parallel.h>
#include <torch/extension.h>

namespace {

/// Keeps raw pointers to temporaries over further allocations, as kernels do.
at::Tensor blur(const at::Tensor& x) {
  const at::Tensor in = x.contiguous();
  const at::Tensor left = at::empty_like(in), right = at::empty_like(in), result = at::empty_like(in);
  const float* from = in.const_data_ptr<float>();
  float *a = left.mutable_data_ptr<float>(), *b = right.mutable_data_ptr<float>(),
        *to = result.mutable_data_ptr<float>();
  const int64_t count = in.numel();
  for (int64_t i = 0; i < count; ++i) a[i] = from[i > 0 ? i - 1 : i];
  const at::Tensor scratch = at::zeros({count});  // pressure, between the uses of a
  for (int64_t i = 0; i < count; ++i) b[i] = from[i + 1 < count ? i + 1 : i] + scratch.const_data_ptr<float>()[i];
  for (int64_t i = 0; i < count; ++i) to[i] = (a[i] + b[i] + from[i]) / 3;
  return result;
}

void add_into(at::Tensor& into, const at::Tensor& x) {
  float* to = into.mutable_data_ptr<float>();
  const float* from = x.const_data_ptr<float>();
  for (int64_t i = 0; i < into.numel(); ++i) to[i] += from[i];
}

class Square : public torch::autograd::Function<Square> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    at::Tensor result = at::empty_like(x);
    for (int64_t i = 0; i < x.numel(); ++i)
      result.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i] * x.const_data_ptr<float>()[i];
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {2 * gradients[0] * context->get_saved_variables()[0]};
  }
};

/// Past the dispatcher: nobody sees that the tensor is read.
double sum_of(const at::Tensor& x) {
  double total = 0;
  for (int64_t i = 0; i < x.numel(); ++i) total += x.const_data_ptr<float>()[i];
  return total;
}

double sum_of_in_parallel(const at::Tensor& x) {
  const float* from = x.const_data_ptr<float>();
  return at::parallel_reduce(
      0, x.numel(), 1000, 0.0,
      [&](int64_t begin, int64_t end, double total) {
        for (int64_t i = begin; i < end; ++i) total += from[i];
        return total;
      },
      std::plus<double>());
}

void double_in_place(const at::Tensor& x) {
  float* data = x.mutable_data_ptr<float>();
  at::parallel_for(0, x.numel(), 1000, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] *= 2;
  });
}

}  // namespace

TORCH_LIBRARY(contract_cpp, library) {
  library.def("blur(Tensor x) -> Tensor");
  library.def("add_into(Tensor(a!) into, Tensor x) -> ()");
  library.def("square(Tensor x) -> Tensor", [](const at::Tensor& x) { return Square::apply(x); });
  library.def("composite(Tensor x) -> Tensor", [](const at::Tensor& x) { return x + x.const_data_ptr<float>()[7]; });
}
TORCH_LIBRARY_IMPL(contract_cpp, CPU, library) {
  library.impl("blur", &blur);
  library.impl("add_into", &add_into);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("blur", &blur);
  module.def("sum_of", &sum_of);
  module.def("sum_of_in_parallel", &sum_of_in_parallel);
  module.def("double_in_place", &double_in_place);
}
