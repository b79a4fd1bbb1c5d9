// Training programs against libtorch's C++ API, as users write them: none knows of a budget. Each prints its losses as
// hexadecimal floats and a digest of all parameters and buffers, so two runs print the same text only if they computed
// the same bits.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>

namespace programs {

// On any device. Data and initial weights are drawn on the host, so that they are the same on each.
void resnet(int steps, torch::Device device);
void lstm(int steps, torch::Device device);
void transformer(int steps, torch::Device device);

// On the host only.
void threads(int steps);

/// What keeps raw addresses, and for how long it holds on to their tensors; nothing in a plain program.
using Hold = std::function<void(const torch::Tensor&)>;
void raw_pointers(int steps, const Hold& hold);

void print_step(int step, const torch::Tensor& loss);
void print_step(const std::string& name, int step, double loss);

/// Of names and bytes, FNV-1a.
class Digest {
 public:
  void add(const std::string& name, const torch::Tensor& tensor);
  void add(const torch::nn::Module& module);
  void print() const;

 private:
  void add(const void* bytes, std::size_t count);
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace programs
