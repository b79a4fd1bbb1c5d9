// Prints on standard output which sizes of an argument fit, as text or as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/fit/search.h"

namespace tensorpager::cli {

/// What `tensorpager fit` found.
struct FitAnswer {
  std::string machine;
  std::string name;  // of the argument that is varied
  fit::Question question;
  bool is_timed = false;               // by the times of real steps, else by the machine's rates
  std::optional<base::Bytes> card;     // memory that CUDA reports; nullopt on the CPU
  std::optional<std::uint64_t> plain;  // the largest size for torch without Tensorpager
  fit::Found found;
  std::vector<std::uint64_t> traced;  // sizes
  std::string checked;                // what the last dry run says of the scaled trace; empty if nothing fits
  bool is_as_scaled = true;           // whether it says that they are equal
};

/// Prints text of one screen.
void print_fit(const FitAnswer& answer);
/// Prints one JSON object.
void print_fit_json(const FitAnswer& answer);

}  // namespace tensorpager::cli
