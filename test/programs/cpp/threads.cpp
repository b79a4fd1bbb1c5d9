// Three threads train a model each, at the same time; a fourth reads what they have, by ops and through addresses.
#include <ATen/CPUGeneratorImpl.h>

#include <atomic>
#include <thread>

#include "programs.h"

namespace programs {
namespace {

constexpr int kWidth = 256, kLayers = 6;

std::vector<double> train(torch::nn::Sequential model, int steps, std::uint64_t seed) {
  // Its own generator: in the global one the threads would meet in any order.
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor batch = torch::randn({kWidth, kWidth}, generator);
    optimizer.zero_grad();
    const torch::Tensor loss = (model->forward(batch) - batch).square().mean();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

void threads(int steps) {
  constexpr int kThreads = 3;
  torch::manual_seed(7);
  std::vector<torch::nn::Sequential> models(kThreads);
  for (auto& model : models)
    for (int layer = 0; layer < kLayers; ++layer) {
      model->push_back(torch::nn::Linear(kWidth, kWidth));
      model->push_back(torch::nn::Tanh());
    }
  const torch::Tensor fixed = torch::arange(1 << 18, torch::kFloat);
  const float* address = fixed.const_data_ptr<float>();

  std::vector<std::vector<double>> losses(kThreads);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!done) {
      for (int i = 0; i < 1 << 18; i += 1 << 12)
        if (address[i] != static_cast<float>(i)) ++wrong;
      if (fixed.sum().item<double>() != fixed.to(torch::kFloat).sum().item<double>()) ++wrong;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::vector<std::thread> workers;
  for (int i = 0; i < kThreads; ++i) workers.emplace_back([&, i] { losses[i] = train(models[i], steps, 100 + i); });
  for (std::thread& worker : workers) worker.join();
  done = true;
  reader.join();

  Digest digest;
  for (int i = 0; i < kThreads; ++i) {
    for (int step = 0; step < steps; ++step) print_step("thread " + std::to_string(i) + " step", step, losses[i][step]);
    digest.add(*models[i]);
  }
  std::printf("wrong reads %d\n", wrong.load());
  digest.print();
}

}  // namespace programs
