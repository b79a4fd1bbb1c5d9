#include <cinttypes>
#include <cstdio>

#include "programs.h"

namespace programs {

void print_step(int step, const torch::Tensor& loss) { print_step("step", step, loss.item<double>()); }

void print_step(const std::string& name, int step, double loss) {
  std::printf("%s %d loss %a\n", name.c_str(), step, loss);
}

void Digest::add(const void* bytes, std::size_t count) {
  for (const auto* at = static_cast<const std::uint8_t*>(bytes); count > 0; ++at, --count)
    value_ = (value_ ^ *at) * 0x100000001b3;
}

void Digest::add(const std::string& name, const torch::Tensor& tensor) {
  add(name.data(), name.size());
  const torch::Tensor whole = tensor.detach().cpu().contiguous();
  add(whole.const_data_ptr(), whole.nbytes());
}

void Digest::add(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
}

void Digest::print() const { std::printf("digest %016" PRIx64 "\n", value_); }

}  // namespace programs
