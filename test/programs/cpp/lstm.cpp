// A word language model: stacked LSTM with dropout, truncated backpropagation through time, gradient clipping, Adam.
#include "programs.h"

namespace programs {
namespace {

namespace nn = torch::nn;

struct LanguageModelImpl : nn::Module {
  LanguageModelImpl(int words, int width, int layers)
      : embedding(register_module("embedding", nn::Embedding(words, width))),
        lstm(register_module("lstm", nn::LSTM(nn::LSTMOptions(width, width).num_layers(layers).dropout(0.2)))),
        decoder(register_module("decoder", nn::Linear(width, words))) {}

  using State = std::tuple<torch::Tensor, torch::Tensor>;

  std::tuple<torch::Tensor, State> forward(const torch::Tensor& tokens, const State& state) {
    auto [out, next] = lstm(torch::dropout(embedding(tokens), 0.2, is_training()), state);
    return {decoder(out), next};
  }

  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear decoder;
};
TORCH_MODULE(LanguageModel);

}  // namespace

void lstm(int steps, torch::Device device) {
  constexpr int kWords = 400, kWidth = 160, kLayers = 4, kBatch = 24, kSpan = 24;
  torch::manual_seed(3);
  LanguageModel model(kWords, kWidth, kLayers);
  model->to(device);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));
  const torch::Tensor text = torch::randint(kWords, {steps * kSpan + 1, kBatch}).cumsum(0).remainder(kWords).to(device);

  LanguageModelImpl::State state{torch::zeros({kLayers, kBatch, kWidth}, device),
                                 torch::zeros({kLayers, kBatch, kWidth}, device)};
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor inputs = text.narrow(0, step * kSpan, kSpan);
    const torch::Tensor targets = text.narrow(0, step * kSpan + 1, kSpan);
    state = {std::get<0>(state).detach(), std::get<1>(state).detach()};
    torch::Tensor logits;
    std::tie(logits, state) = model->forward(inputs, state);
    const torch::Tensor loss = torch::cross_entropy_loss(logits.view({-1, kWords}), targets.reshape(-1));
    optimizer.zero_grad();
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 0.25);
    optimizer.step();
    print_step(step, loss);
  }
  Digest digest;
  digest.add(*model);
  digest.add("hidden", std::get<0>(state));
  digest.add("cell", std::get<1>(state));
  digest.print();
}

}  // namespace programs
