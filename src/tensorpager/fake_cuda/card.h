// The card that is emulated: what its properties say, and how many of it there are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensorpager::fake_cuda {

struct Card {
  static constexpr int kMostDevices = 8;

  std::string name = "h100-80g";
  int devices = 1;
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  std::size_t memory = 85520809984;  // bytes a device; an H100's

  /// As a program sees it: "NVIDIA H100-80G (emulated)".
  std::string display_name() const;
  bool operator==(const Card&) const = default;
};

/// Parses TENSORPAGER_CARD: fields as in "name=h100-80g devices=2 compute=9.0 multiprocessors=132 memory=85520809984",
/// in any order; one that is missing keeps its value above. Throws InvalidArgument.
Card parse_card(std::string_view text);

}  // namespace tensorpager::fake_cuda
