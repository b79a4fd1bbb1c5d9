// Prints on standard output which sizes of an argument fit, as text or as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/fit/data_parallel.h"
#include "tensorpager/fit/learning_rate.h"
#include "tensorpager/fit/noise_scale.h"
#include "tensorpager/fit/plain.h"
#include "tensorpager/fit/search.h"

namespace tensorpager::cli {

/// Data-parallel training at the quickest size.
struct RanksAnswer {
  fit::Ranks ranks;
  fit::Reduction reduction;  // under the plan
  fit::Reduction resident;   // were all storages resident
};

/// Real steps under the budget, with plans.
struct MeasuredSize {
  std::uint64_t size;
  double per_second;
};

/// What `tensorpager fit` found.
struct FitAnswer {
  std::string machine;
  std::string name;  // of the argument that is varied
  fit::Question question;
  bool is_timed = false;            // by the times of real steps, else by the machine's rates
  std::optional<base::Bytes> card;  // memory that CUDA reports; nullopt on the CPU
  std::optional<fit::Plain> plain;  // torch without Tensorpager; nullopt on the CPU
  fit::Found found;
  std::vector<MeasuredSize> measured;  // by size; of them the quickest is the answer; empty: none were run
  std::optional<RanksAnswer> ranks;    // nullopt: one rank
  std::optional<fit::NoiseScale> noise;
  std::optional<fit::LearningRate> learning_rate;
  std::vector<std::uint64_t> traced;  // sizes
  std::string checked;                // what the last dry run says of the scaled trace; empty if nothing fits
  bool is_as_scaled = true;           // whether it says that they are equal
};

/// Prints text of one screen.
void print_fit(const FitAnswer& answer);
/// Prints one JSON object.
void print_fit_json(const FitAnswer& answer);

}  // namespace tensorpager::cli
