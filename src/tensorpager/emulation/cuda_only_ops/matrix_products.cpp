// Products of 16-bit matrices into a wider type, without a rounding in between: mm, addmm, bmm and baddbmm with an
// `out_dtype`.
#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/roofline/op_work.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

/// The sizes of `a @ b`, of matrices or of batches.
std::vector<std::int64_t> product_sizes(const Tensor& a, const Tensor& b) {
  std::vector<std::int64_t> sizes = a.sizes().vec();
  sizes.back() = b.size(-1);
  return sizes;
}

/// Each element of the result is a product of a row of `a`.
fake_cuda::Work work_of(const Tensor& a, const Tensor& output) {
  return {.flops = 2 * static_cast<std::uint64_t>(output.numel() * a.size(-1)), .precision = roofline::precision_of(a)};
}

void launch_product(const char* name, const Tensor& a, const Tensor& b, const Tensor& output) {
  Operands with;
  const Tensor left = with.read(a), right = with.read(b), out = with.write(output);
  launch(
      name, with,
      [=] {
        const at::ScalarType type = compute_type(out.scalar_type());
        out.copy_(at::matmul(left.to(type), right.to(type)));
      },
      work_of(a, output));
}

void launch_sum(const char* name, const Tensor& added, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                const at::Scalar& alpha, const Tensor& output) {
  Operands with;
  const Tensor term = with.read(added), left = with.read(a), right = with.read(b), out = with.write(output);
  launch(
      name, with,
      [=] {
        const at::ScalarType type = compute_type(out.scalar_type());
        const Tensor product = at::matmul(left.to(type), right.to(type)).mul_(alpha);
        // As in BLAS, a term with a factor of 0 is not read, so that NaN in it does not count.
        out.copy_(beta.toDouble() == 0 ? product : product + term.to(type) * beta);
      },
      work_of(a, output));
}

template <const char* kName>
Tensor product(const Tensor& a, const Tensor& b, at::ScalarType type) {
  const Tensor output = empty(product_sizes(a, b), type);
  launch_product(kName, a, b, output);
  return output;
}

template <const char* kName>
Tensor& product_out(const Tensor& a, const Tensor& b, at::ScalarType /*type*/, Tensor& output) {
  launch_product(kName, a, b, output);
  return output;
}

template <const char* kName>
Tensor sum(const Tensor& added, const Tensor& a, const Tensor& b, at::ScalarType type, const at::Scalar& beta,
           const at::Scalar& alpha) {
  const Tensor output = empty(product_sizes(a, b), type);
  launch_sum(kName, added, a, b, beta, alpha, output);
  return output;
}

template <const char* kName>
Tensor& sum_out(const Tensor& added, const Tensor& a, const Tensor& b, at::ScalarType /*type*/, const at::Scalar& beta,
                const at::Scalar& alpha, Tensor& output) {
  launch_sum(kName, added, a, b, beta, alpha, output);
  return output;
}

constexpr char kMm[] = "mm.dtype", kBmm[] = "bmm.dtype", kAddmm[] = "addmm.dtype", kBaddbmm[] = "baddbmm.dtype";

}  // namespace

void register_matrix_products(OwnOps& ops) {
  ops.add("mm.dtype", product<kMm>);
  ops.add("mm.dtype_out", product_out<kMm>);
  ops.add("bmm.dtype", product<kBmm>);
  ops.add("bmm.dtype_out", product_out<kBmm>);
  ops.add("addmm.dtype", sum<kAddmm>);
  ops.add("addmm.dtype_out", sum_out<kAddmm>);
  ops.add("baddbmm.dtype", sum<kBaddbmm>);
  ops.add("baddbmm.dtype_out", sum_out<kBaddbmm>);
}

}  // namespace tensorpager::emulation
