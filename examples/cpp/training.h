// What the examples in C++ share: options, the schedule of the learning rate, a digest of what was trained, and main().
#pragma once

#include <tensorpager/tensorpager.h>
#include <torch/torch.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>

namespace example {

using Options = std::map<std::string, std::string>;

inline int number(const Options& options, const std::string& name) { return std::stoi(options.at(name)); }

/// `options`: the defaults, by name. Throws std::invalid_argument, with the usage, for what it does not know.
inline Options read_options(const std::string& program, Options options, int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = std::string(argv[i]).substr(0, 2) == "--" ? argv[i] + 2 : "";
    if (!options.contains(name) || i + 1 == argc) {
      std::string known;
      for (const auto& [option, value] : options)
        known += " [--" + option + " " + (value.empty() ? "..." : value) + "]";
      throw std::invalid_argument(std::string("cannot take ") + argv[i] + "; usage: " + program + known);
    }
    options[name] = argv[i + 1];
  }
  return options;
}

/// One cycle: up from a 25th of the peak over the first `rise` of the steps, then down to nearly nothing, along
/// cosines.
inline double learning_rate(double peak, double rise, int step, int steps) {
  const double top = rise * steps - 1, end = steps - 1;
  const auto between = [](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
  };
  return step <= top ? between(peak / 25, peak, step / top) : between(peak, peak / 25e4, (step - top) / (end - top));
}

/// One line with the loss in all its bits.
inline void print_step(int step, const torch::Tensor& loss) {
  std::printf("step %d loss %.6f %a\n", step, loss.item<double>(), loss.item<double>());
  std::fflush(stdout);
}

/// FNV-1a over all parameters and buffers: two runs with one digest have trained the same model to the last bit.
inline void print_digest(const torch::nn::Module& model) {
  std::uint64_t value = 0xcbf29ce484222325;
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor whole = tensor.detach().contiguous();
    const auto* bytes = static_cast<const std::uint8_t*>(whole.const_data_ptr());
    for (std::size_t i = 0; i < whole.nbytes(); ++i) value = (value ^ bytes[i]) * 0x100000001b3;
  };
  for (const torch::Tensor& parameter : model.parameters()) add(parameter);
  for (const torch::Tensor& buffer : model.buffers()) add(buffer);
  std::printf("digest %016" PRIx64 "\n", value);
}

/// Runs the program by its options `threads`, `seed` and `session`, a budget, or nothing for no session of its own.
inline int run_main(const std::string& program, const Options& defaults, int argc, char** argv,
                    const std::function<void(const Options&)>& run) {
  try {
    const Options options = read_options(program, defaults, argc, argv);
    if (!options.at("threads").empty()) torch::set_num_threads(number(options, "threads"));
    torch::manual_seed(std::stoul(options.at("seed")));
    std::optional<tensorpager::Session> session;
    if (!options.at("session").empty()) session.emplace(tensorpager::Options{.budget = options.at("session")});
    run(options);
    if (session) std::cerr << session->report().summary() << '\n';
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << program << ": " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 2;
  }
}

}  // namespace example
