// The trace of a program's step at any size of one of its arguments, such as the batch, from its traces at a few sizes.
//
// Programs of layers do the same ops at each batch, and each amount (bytes, work) is fixed or grows in proportion, so
// that two traces scale exactly. Where an amount grows with the square, as attention's with the length of a sequence,
// three do. What grows otherwise is noticed by a dry run at the size that matters, whose trace is then added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

/// A trace, and the size of the argument that it was recorded at.
struct SizedTrace {
  std::uint64_t size = 0;
  trace::Trace trace;
};

/// What differs between two traces except for amounts: the first op, as text for messages. Empty if nothing does.
std::string difference_of(const trace::Trace& a, const trace::Trace& b);

/// Storages and ops of which two traces have other amounts, if they differ in nothing else. Times are no amounts.
struct OtherAmounts {
  std::size_t count = 0;
  std::string first = {};  // as text for messages
};
OtherAmounts other_amounts(const trace::Trace& a, const trace::Trace& b);

class Scaling {
 public:
  /// Two sizes. Throws InvalidArgument if the traces differ in more than amounts.
  Scaling(SizedTrace first, SizedTrace second);
  /// Of another size. Throws InvalidArgument if it differs from the others in more than amounts.
  void add(SizedTrace more);

  /// Amounts on the parabola through the three traces whose sizes are nearest, or on the line through two; times on the
  /// line through the neighbours. Rounded, and at least 0.
  trace::Trace at(std::uint64_t size) const;

  /// By size.
  const std::vector<SizedTrace>& traces() const { return traces_; }

 private:
  std::vector<SizedTrace> traces_;
};

}  // namespace tensorpager::fit
