// A small transformer encoder on sequences to classify: attention with a mask, dropout, AdamW, accumulated gradients.
#include "programs.h"

namespace programs {

namespace nn = torch::nn;

void transformer(int steps, torch::Device device) {
  constexpr int kWords = 200, kWidth = 128, kLength = 64, kBatch = 8, kClasses = 5;
  torch::manual_seed(5);
  const auto layer = nn::TransformerEncoderLayer(
      nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0.1).activation(torch::kGELU));
  nn::Embedding embedding(kWords, kWidth);
  nn::TransformerEncoder encoder(nn::TransformerEncoderOptions(layer, 3));
  nn::Linear head(kWidth, kClasses);
  const torch::Tensor mask = nn::TransformerImpl::generate_square_subsequent_mask(kLength).to(device);

  std::vector<torch::Tensor> parameters;
  for (nn::Module* module : {static_cast<nn::Module*>(embedding.get()), static_cast<nn::Module*>(encoder.get()),
                             static_cast<nn::Module*>(head.get())}) {
    module->to(device);
    for (const torch::Tensor& parameter : module->parameters()) parameters.push_back(parameter);
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3).weight_decay(0.01));

  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    double sum = 0;
    for (int part = 0; part < 2; ++part) {
      const torch::Tensor tokens = torch::randint(kWords, {kLength, kBatch}).to(device);
      const torch::Tensor labels = tokens.sum(0).remainder(kClasses);
      const torch::Tensor out = encoder(embedding(tokens) * std::sqrt(double{kWidth}), mask);
      const torch::Tensor loss = torch::cross_entropy_loss(head(out.mean(0)), labels);
      loss.backward();
      sum += loss.item<double>();
    }
    optimizer.step();
    print_step("step", step, sum);
  }
  Digest digest;
  digest.add(*embedding);
  digest.add(*encoder);
  digest.add(*head);
  digest.print();
}

}  // namespace programs
