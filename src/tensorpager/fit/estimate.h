// Estimates what a program needs on a card, from a dry trace of one of its steps and from the memory that torch's own
// allocator used in the dry run.
#pragma once

#include <optional>

#include "tensorpager/fit/budgets.h"
#include "tensorpager/fit/composition.h"

namespace tensorpager::fit {

/// What a process with CUDA holds on the card besides the memory of torch's allocator: the context, and the kernels of
/// torch and its libraries. Users report 0.3 to 0.6 GiB on recent cards; not measured here.
inline constexpr base::Bytes kContext = base::Bytes(std::uint64_t{512} << 20);

struct Estimate {
  base::Bytes card;                 // memory that CUDA reports
  base::Bytes allocated, reserved;  // peaks of torch's caching allocator: in use, and held
  base::Bytes need, floor;          // of a step
  std::size_t ops = 0;              // of a step
  Composition parts;
  std::string peak_op;
  machine::Nanoseconds compute{0};  // of a step, by the card's roofline
  Cost free;                        // the smallest budget that costs next to nothing
  std::optional<Cost> half;         // half of the need; nullopt if no plan fits
  std::optional<Cost> whole_card;   // memory of the card without kContext; only if plain torch does not fit
  std::optional<Cost> asked;

  bool fits() const { return reserved + kContext <= card; }
};

/// `machine` must have a card. Plans up to eight times: seconds for a large trace.
Estimate estimate(const trace::Trace& trace, const machine::Machine& machine, base::Bytes allocated,
                  base::Bytes reserved, std::optional<base::Bytes> asked);

}  // namespace tensorpager::fit
