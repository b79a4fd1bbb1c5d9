// A residual network with batch norm on small images: SGD with momentum, in place operations, an evaluation at the end.
#include "programs.h"

namespace programs {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d conv(int inputs, int outputs, int kernel, int stride) {
  return nn::Conv2d(nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BlockImpl : nn::Module {
  BlockImpl(int inputs, int outputs, int stride)
      : conv1(register_module("conv1", conv(inputs, outputs, 3, stride))),
        conv2(register_module("conv2", conv(outputs, outputs, 3, 1))),
        norm1(register_module("norm1", nn::BatchNorm2d(outputs))),
        norm2(register_module("norm2", nn::BatchNorm2d(outputs))) {
    if (stride != 1 || inputs != outputs)
      shortcut =
          register_module("shortcut", nn::Sequential(conv(inputs, outputs, 1, stride), nn::BatchNorm2d(outputs)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = norm2(conv2(norm1(conv1(x)).relu_()));
    out += shortcut.is_empty() ? x : shortcut->forward(x);
    return out.relu_();
  }

  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Block);

nn::Sequential make_model(int width, int depth, int classes) {
  nn::Sequential model(conv(3, width, 3, 1), nn::BatchNorm2d(width), nn::ReLU(nn::ReLUOptions().inplace(true)));
  int channels = width;
  for (int stage = 0; stage < 3; ++stage)
    for (int index = 0; index < depth; ++index) {
      model->push_back(Block(channels, width << stage, stage > 0 && index == 0 ? 2 : 1));
      channels = width << stage;
    }
  model->push_back(nn::AdaptiveAvgPool2d(1));
  model->push_back(nn::Flatten());
  model->push_back(nn::Linear(channels, classes));
  return model;
}

}  // namespace

void resnet(int steps, torch::Device device) {
  constexpr int kClasses = 10, kBatch = 32;
  torch::manual_seed(0);
  nn::Sequential model = make_model(16, 2, kClasses);
  model->to(device);
  // Each class is a coarse pattern, and each image is its pattern with noise.
  torch::Tensor labels = torch::randint(kClasses, {4 * kBatch});
  const torch::Tensor patterns = torch::randn({kClasses, 3, 4, 4}).repeat_interleave(8, 2).repeat_interleave(8, 3);
  torch::Tensor images = patterns.index_select(0, labels) + 0.5 * torch::randn({4 * kBatch, 3, 32, 32});
  images = images.to(device), labels = labels.to(device);

  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4).nesterov(true));
  for (int step = 0; step < steps; ++step) {
    const int first = step % 4 * kBatch;
    optimizer.zero_grad();
    const torch::Tensor loss =
        F::cross_entropy(model->forward(images.narrow(0, first, kBatch)), labels.narrow(0, first, kBatch));
    loss.backward();
    optimizer.step();
    print_step(step, loss);
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  long correct = 0;
  for (int first = 0; first < 4 * kBatch; first += kBatch)
    correct += model->forward(images.narrow(0, first, kBatch))
                   .argmax(1)
                   .eq(labels.narrow(0, first, kBatch))
                   .sum()
                   .item<int64_t>();
  std::printf("correct %ld\n", correct);
  Digest digest;
  digest.add(*model);
  digest.print();
}

}  // namespace programs
