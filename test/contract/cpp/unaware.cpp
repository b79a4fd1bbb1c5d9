// Programs that know libtorch and not Tensorpager: one mode for each thing that a process can do to a session.
//
//   cpp_unaware MODE [FILE]
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

namespace {

constexpr int kWidth = 256;  // float32 squares of 256 KiB
constexpr std::size_t kSquare = kWidth * kWidth * sizeof(float);

torch::nn::Sequential make_model(int layers = 6) {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int i = 0; i < layers; ++i) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::Tanh());
  }
  return model;
}

std::string train(torch::nn::Sequential& model, int steps = 3) {
  torch::manual_seed(2);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  std::string losses;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor batch = torch::randn({kWidth, kWidth});
    optimizer.zero_grad();
    const torch::Tensor loss = (model->forward(batch) - batch).square().mean();
    loss.backward();
    optimizer.step();
    char text[40];
    std::snprintf(text, sizeof text, "%a ", loss.item<double>());
    losses += text;
  }
  return losses;
}

/// More than any budget of the tests: what was there before is evicted.
void press() {
  for (int i = 0; i < 40; ++i) torch::ones({kWidth, kWidth}).add_(1);
  std::vector<torch::Tensor> held;
  for (int i = 0; i < 24; ++i) held.push_back(torch::ones({kWidth, kWidth}));
}

double sum(torch::nn::Sequential& model) {
  double total = 0;
  for (const torch::Tensor& parameter : model->parameters()) total += parameter.sum().item<double>();
  return total;
}

// --- what ends a process
torch::Tensor g_before_main = torch::arange(kWidth * kWidth, torch::kFloat);  // made by a constructor before main()
torch::nn::Sequential g_model{nullptr};

struct AtTheEnd {
  ~AtTheEnd() {
    std::printf("static %a %a\n", g_before_main[12345].item<double>(), sum(g_model));
    std::fflush(stdout);
  }
};

void statics() {
  static AtTheEnd end;
  g_model = make_model();
  std::printf("%s\n", train(g_model).c_str());
  static torch::Tensor last = torch::ones({kWidth, kWidth});
  press();
}

void exit_code() {
  torch::nn::Sequential model = make_model();
  std::printf("%s\n", train(model).c_str());
  std::atexit([] { std::puts("exit handler"); });
  std::exit(7);
}

/// A thread that still has tensors, and waits, when main() returns.
void thread_at_exit() {
  std::atomic<bool> is_waiting{false};
  std::thread([&is_waiting] {
    torch::nn::Sequential model = make_model();
    std::printf("%s\n", train(model).c_str());
    is_waiting = true;
    for (;;) pause();
  }).detach();
  while (!is_waiting) std::this_thread::yield();
  press();
}

// --- children
void forks() {
  torch::nn::Sequential model = make_model();
  std::printf("parent %s\n", train(model).c_str());
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::printf("child %d %s\n", getpid(), train(model).c_str());
    std::exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("code %d\n", WEXITSTATUS(status));
  std::printf("parent again %s\n", train(model).c_str());
}

// --- an op that does not fit
void out_of_memory() {
  torch::nn::Sequential model = make_model();
  std::printf("%s\n", train(model).c_str());
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      const torch::Tensor huge = torch::ones({64, kWidth, kWidth});
      std::puts("fits");
    } catch (const c10::OutOfMemoryError& error) {
      const std::string text = error.what_without_backtrace();
      std::printf("caught %s\n", text.substr(0, text.find(':', 20)).c_str());
    }
  }
  std::printf("%s\n", train(model).c_str());
}

void not_caught() { const torch::Tensor huge = torch::ones({64, kWidth, kWidth}); }

// --- memory that is handed to the kernel
void check(const char* what, bool equal) { std::printf("%s %s\n", what, equal ? "equal" : "DIFFERENT"); }

void save(const std::string& path) {
  torch::nn::Sequential model = make_model(), other = make_model();
  train(model);
  press();
  torch::save(model, path);
  torch::load(other, path);
  const auto ours = model->parameters(), theirs = other->parameters();
  bool equal = true;
  for (std::size_t i = 0; i < ours.size(); ++i) equal = equal && ours[i].equal(theirs[i]);
  check("torch::save", equal);
}

/// Writes an evicted tensor and reads it back into another evicted one.
template <typename Write, typename Read>
void there_and_back(const char* what, Write&& write, Read&& read) {
  const torch::Tensor from = torch::rand({kWidth, kWidth}), to = torch::zeros({kWidth, kWidth});
  const torch::Tensor copy = from.clone();
  const void* source = from.const_data_ptr();
  void* target = to.mutable_data_ptr();
  press();
  const bool written = write(source);
  press();
  const bool done = read(target);
  check(what, written && done && to.equal(copy));
}

void system_calls(const std::string& path) {
  there_and_back(
      "fstream",
      [&](const void* data) {
        std::ofstream file(path, std::ios::binary);
        return static_cast<bool>(file.write(static_cast<const char*>(data), kSquare).flush());
      },
      [&](void* data) {
        std::ifstream file(path, std::ios::binary);
        return static_cast<bool>(file.read(static_cast<char*>(data), kSquare));
      });
  const auto with_file = [&](const char* mode, auto&& use) {
    std::FILE* file = std::fopen(path.c_str(), mode);
    const bool good = use(file);
    return std::fclose(file) == 0 && good;
  };
  there_and_back(
      "fwrite and fread",
      [&](const void* data) {
        return with_file("wb", [&](std::FILE* file) { return std::fwrite(data, 1, kSquare, file) == kSquare; });
      },
      [&](void* data) {
        return with_file("rb", [&](std::FILE* file) { return std::fread(data, 1, kSquare, file) == kSquare; });
      });
  there_and_back(
      "pwrite and pread",
      [&](const void* data) {
        return with_file("wb",
                         [&](std::FILE* file) { return pwrite(fileno(file), data, kSquare, 0) == ssize_t{kSquare}; });
      },
      [&](void* data) {
        return with_file("rb",
                         [&](std::FILE* file) { return pread(fileno(file), data, kSquare, 0) == ssize_t{kSquare}; });
      });
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  const std::string mode = argc > 1 ? argv[1] : "", path = argc > 2 ? argv[2] : "";
  const std::map<std::string, std::function<void()>> modes{
      {"statics", statics},
      {"exit_code", exit_code},
      {"thread_at_exit", thread_at_exit},
      {"forks", forks},
      {"out_of_memory", out_of_memory},
      {"not_caught", not_caught},
      {"save", [&] { save(path); }},
      {"system_calls", [&] { system_calls(path); }},
  };
  const auto chosen = modes.find(mode);
  if (chosen == modes.end()) {
    std::cerr << "usage: cpp_unaware MODE [FILE]\n";
    return 2;
  }
  chosen->second();
  return 0;
}
