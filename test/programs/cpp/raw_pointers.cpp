// An optimizer written by hand: it took the addresses of all parameters and of its own state once, at the start, and
// reads and writes them in plain loops between the steps.
#include "programs.h"

namespace programs {
namespace {

struct Slot {
  float* weight;
  float* momentum;
  torch::Tensor parameter;  // its gradient is another one each step
  std::size_t count;
};

}  // namespace

void raw_pointers(int steps, const Hold& hold) {
  constexpr int kWidth = 192, kLayers = 10, kBatch = 96;
  torch::manual_seed(11);
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::Tanh());
  }
  std::vector<torch::Tensor> state;
  std::vector<Slot> slots;
  for (torch::Tensor parameter : model->parameters()) {
    state.push_back(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
    slots.push_back({parameter.data_ptr<float>(), state.back().data_ptr<float>(), parameter,
                     static_cast<std::size_t>(parameter.numel())});
    if (hold) hold(state.back());
  }

  for (int step = 0; step < steps; ++step) {
    const torch::Tensor batch = torch::randn({kBatch, kWidth});
    model->zero_grad();
    const torch::Tensor loss = (model->forward(batch) - batch).square().mean();
    loss.backward();
    for (const Slot& slot : slots) {
      const torch::Tensor gradient = slot.parameter.grad().contiguous();
      const float* slope = gradient.const_data_ptr<float>();
      for (std::size_t i = 0; i < slot.count; ++i) {
        slot.momentum[i] = 0.9f * slot.momentum[i] + slope[i];
        slot.weight[i] -= 0.05f * slot.momentum[i];
      }
    }
    print_step(step, loss);
  }
  Digest digest;
  digest.add(*model);
  for (std::size_t i = 0; i < state.size(); ++i) digest.add("momentum " + std::to_string(i), state[i]);
  digest.print();
}

}  // namespace programs
