// The trace of a program's step at any size of one of its arguments, such as the batch, from its traces at two sizes.
//
// Programs of layers do the same ops at each batch, and each amount (bytes, work) is fixed or grows in proportion, so
// that traces scale exactly. What does not is noticed: steps of other ops by `difference_of`, amounts that grow
// otherwise by a dry run at the size that matters (`differs_from`).
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

/// A trace, and the size of the argument that it was recorded at.
struct SizedTrace {
  std::uint64_t size = 0;
  trace::Trace trace;
};

/// What differs between two traces except for amounts: the first op, as text for messages. Empty if nothing does.
std::string difference_of(const trace::Trace& a, const trace::Trace& b);

/// In how many storages two traces differ in bytes, if in nothing but amounts.
std::size_t different_storages(const trace::Trace& a, const trace::Trace& b);

class Scaling {
 public:
  /// Two sizes. Throws InvalidArgument if the traces differ in more than amounts.
  Scaling(SizedTrace first, SizedTrace second);

  /// Amounts on the line through the two, rounded, and at least 0.
  trace::Trace at(std::uint64_t size) const;

  const SizedTrace& first() const { return first_; }
  const SizedTrace& second() const { return second_; }

 private:
  std::uint64_t between(std::uint64_t a, std::uint64_t b, std::uint64_t size) const;

  SizedTrace first_, second_;
};

}  // namespace tensorpager::fit
