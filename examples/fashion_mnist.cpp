// The C++ twin of fashion_mnist.py: trains a small ResNet on Fashion-MNIST with libtorch.
//
//   fashion_mnist [--data DIR] [--steps N] [--session BUDGET] ...
//
// With --session it uses Tensorpager's C++ API; without, it is an ordinary program, also under `tensorpager run`. The
// losses, printed with all their bits, are the same each time.
#include <torch/torch.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpp/training.h"

namespace {

namespace nn = torch::nn;

/// The tensor in a gzipped IDX file of unsigned bytes: magic, a big-endian size for each dimension, the data.
torch::Tensor read_idx(const std::string& path) {
  if (path.find('\'') != std::string::npos) throw std::runtime_error(path + ": a quote in the name of the folder");
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(("gzip -dc '" + path + "'").c_str(), "r"), close);
  const auto read = [&](void* to, std::size_t count) {
    if (!pipe || std::fread(to, 1, count, pipe.get()) != count) throw std::runtime_error(path + ": not to be read");
  };
  std::uint8_t magic[4];
  read(magic, sizeof magic);
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8) throw std::runtime_error(path + ": not an IDX file of bytes");
  std::vector<std::int64_t> shape;
  for (int i = 0; i < magic[3]; ++i) {
    std::uint8_t size[4];
    read(size, sizeof size);
    shape.push_back(std::int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
  }
  torch::Tensor data = torch::empty(shape, torch::kByte);
  read(data.mutable_data_ptr(), data.nbytes());
  return data;
}

struct Split {
  Split(const std::string& folder, const std::string& name)
      : images(read_idx(folder + "/" + name + "-images-idx3-ubyte.gz")),
        labels(read_idx(folder + "/" + name + "-labels-idx1-ubyte.gz")) {}

  std::pair<torch::Tensor, torch::Tensor> batch(const torch::Tensor& chosen) const {
    torch::Tensor x = images.index_select(0, chosen).to(torch::kFloat).unsqueeze(1);
    x = x.div(255).sub(0.286).div(0.353);  // the training set's mean and deviation
    return {x.contiguous(torch::MemoryFormat::ChannelsLast), labels.index_select(0, chosen).to(torch::kLong)};
  }

  torch::Tensor images, labels;
};

nn::Conv2d conv3x3(int inputs, int outputs, int stride) {
  return nn::Conv2d(nn::Conv2dOptions(inputs, outputs, 3).stride(stride).padding(1).bias(false));
}

struct BlockImpl : nn::Module {
  explicit BlockImpl(int width)
      : conv1(register_module("conv1", conv3x3(width, width, 1))),
        norm1(register_module("norm1", nn::BatchNorm2d(width))),
        conv2(register_module("conv2", conv3x3(width, width, 1))),
        norm2(register_module("norm2", nn::BatchNorm2d(width))) {
    nn::init::zeros_(norm2->weight);  // a block starts as the identity, which lets a short schedule start fast
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = torch::relu(norm1(conv1(x)));
    return torch::relu(norm2(conv2(y)) + x);
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;
};
TORCH_MODULE(Block);

nn::Sequential make_model(int width, int blocks) {
  nn::Sequential model(conv3x3(1, width, 2), nn::BatchNorm2d(width), nn::ReLU());  // 28 x 28 -> 14 x 14
  for (int i = 0; i < blocks; ++i) model->push_back(Block(width));
  model->push_back(nn::AvgPool2d(2));
  model->push_back(nn::Flatten());
  model->push_back(nn::Linear(width * 7 * 7, 10));
  return model;
}

void train(nn::Sequential& model, const Split& data, const example::Options& options) {
  const int batch = example::number(options, "batch"), steps = example::number(options, "steps");
  const double peak = std::stod(options.at("lr"));
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(peak).momentum(0.9).nesterov(true).weight_decay(5e-4));
  const auto epoch_steps = static_cast<int>(data.images.size(0)) / batch;
  torch::Tensor order;
  for (int step = 0; step < steps; ++step) {
    if (step % epoch_steps == 0) order = torch::randperm(data.images.size(0));
    const auto [x, y] = data.batch(order.narrow(0, step % epoch_steps * batch, batch));
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options())
        .lr(example::learning_rate(peak, 0.3, step, steps));
    optimizer.zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(model->forward(x), y);
    loss.backward();
    optimizer.step();
    example::print_step(step, loss);
  }
}

double test_accuracy(nn::Sequential& model, const Split& data, std::int64_t images, std::int64_t batch) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::int64_t correct = 0;
  for (std::int64_t at = 0; at < images; at += batch) {
    const auto [x, y] = data.batch(torch::arange(at, std::min(at + batch, images)));
    correct += model->forward(x).argmax(1).eq(y).sum().item<std::int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(images);
}

void run(const example::Options& options) {
  const Split training(options.at("data"), "train"), test(options.at("data"), "t10k");
  nn::Sequential model = make_model(example::number(options, "width"), example::number(options, "blocks"));
  for (torch::Tensor& parameter : model->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));

  const auto begin = std::chrono::steady_clock::now();
  train(model, training, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "train seconds %.2f\n", seconds.count());
  const auto images = std::min<std::int64_t>(std::stol(options.at("test-images")), test.images.size(0));
  if (images > 0) {
    const double accuracy = test_accuracy(model, test, images, std::stol(options.at("batch")));
    std::printf("test accuracy %.4f on %" PRId64 " images\n", accuracy, images);
  }
  example::print_digest(*model);
}

}  // namespace

int main(int argc, char** argv) {
  const example::Options defaults{{"data", "/usr/share/datasets/fashion-mnist"},
                                  {"batch", "512"},
                                  {"steps", "80"},
                                  {"width", "32"},
                                  {"blocks", "9"},
                                  {"lr", "0.08"},
                                  {"test-images", "10000"},
                                  {"threads", ""},
                                  {"seed", "1"},
                                  {"session", ""}};
  return example::run_main("fashion_mnist", defaults, argc, argv, &run);
}
