// cuDNN's grid sampler, which F.grid_sample takes for bilinear sampling with zeros around and aligned corners, and its
// generator of affine grids.
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

constexpr std::int64_t kBilinear = 0, kZeros = 0;  // at::native::GridSamplerInterpolation, GridSamplerPadding

Tensor grid_sampler(const Tensor& input, const Tensor& grid) {
  const Tensor output = empty({input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.scalar_type());
  Operands with;
  const Tensor x = with.read(input), places = with.read(grid), y = with.write(output);
  launch("cudnn_grid_sampler", with,
         [=] { y.copy_(at::grid_sampler_2d(x, places, kBilinear, kZeros, /*align_corners=*/true)); });
  return output;
}

std::tuple<Tensor, Tensor> grid_sampler_backward(const Tensor& input, const Tensor& grid, const Tensor& grad_output) {
  const Tensor grad_input = empty(input.sizes(), input.scalar_type());
  const Tensor grad_grid = empty(grid.sizes(), grid.scalar_type());
  Operands with;
  const Tensor x = with.read(input), places = with.read(grid), gradient = with.read(grad_output);
  const Tensor gx = with.write(grad_input), gp = with.write(grad_grid);
  launch("cudnn_grid_sampler_backward", with, [=] {
    const auto [dx, dp] = at::grid_sampler_2d_backward(gradient, x, places, kBilinear, kZeros,
                                                       /*align_corners=*/true, {true, true});
    gx.copy_(dx);
    gp.copy_(dp);
  });
  return {grad_input, grad_grid};
}

Tensor affine_grid(const Tensor& theta, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const Tensor grid = empty({n, h, w, 2}, theta.scalar_type());
  Operands with;
  const Tensor maps = with.read(theta), to = with.write(grid);
  launch("cudnn_affine_grid_generator", with, [=] {
    to.copy_(at::affine_grid_generator(maps, {n, c, h, w}, /*align_corners=*/true));
  });
  return grid;
}

Tensor affine_grid_backward(const Tensor& grad_grid, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const Tensor grad_theta = empty({n, 2, 3}, grad_grid.scalar_type());
  Operands with;
  const Tensor gradient = with.read(grad_grid), to = with.write(grad_theta);
  launch("cudnn_affine_grid_generator_backward", with, [=] {
    to.copy_(at::affine_grid_generator_backward(gradient, {n, c, h, w}, /*align_corners=*/true));
  });
  return grad_theta;
}

}  // namespace

void register_sampling(OwnOps& ops) {
  ops.add("cudnn_grid_sampler", grid_sampler);
  ops.add("cudnn_grid_sampler_backward", grid_sampler_backward);
  ops.add("cudnn_affine_grid_generator", affine_grid);
  ops.add("cudnn_affine_grid_generator_backward", affine_grid_backward);
}

}  // namespace tensorpager::emulation
