// The four kinds of failure: the caller's mistake (InvalidArgument), the environment (IoError), an op that does not fit
// whatever is evicted (OverBudget), and a bug of ours (TENSORPAGER_CHECK).
#pragma once

#include <stdexcept>
#include <string>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// A bad option or a bad file. The text says what is wrong, where, and what to try, in one line.
class InvalidArgument : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A failed call to the operating system: its name, its object, how many bytes, errno and its text.
class IoError : public std::runtime_error {
 public:
  /// `place` continues the text "bytes to": "the spill file in /tmp". No count is shown if `bytes` is 0. `advice` says
  /// what to try.
  IoError(const std::string& call, const std::string& place, Bytes bytes, int error_number,
          const std::string& advice = "");
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

/// The pinned bytes and the request do not fit together, whatever is evicted; or they do, but not in one piece. Thrown
/// before any contents changed: the caller may free memory and go on.
class OverBudget : public std::runtime_error {
 public:
  /// `largest_place`: the largest contiguous range that eviction could free, if blocks share one arena; `other_way`:
  /// what to try if that is too small, besides a larger budget.
  OverBudget(Bytes asked, Bytes pinned, Bytes budget, Bytes largest_place = kUnlimited,
             const std::string& other_way = "--binding stable");
  Bytes asked() const { return asked_; }    // bytes of the request
  Bytes pinned() const { return pinned_; }  // bytes that cannot be evicted now
  Bytes budget() const { return budget_; }  // the limit

 private:
  Bytes asked_;
  Bytes pinned_;
  Bytes budget_;
};

/// Prints the claim and its source line, then aborts: the state can no longer be trusted.
[[noreturn]] void fail_check(const char* claim, const char* file, int line);

}  // namespace tensorpager::base

/// Always on; for cold paths.
#define TENSORPAGER_CHECK(claim)                                   \
  do {                                                             \
    if (!(claim)) [[unlikely]]                                     \
      ::tensorpager::base::fail_check(#claim, __FILE__, __LINE__); \
  } while (false)

/// On if TENSORPAGER_DEBUG_CHECKS is defined (not tied to NDEBUG, which torch's headers need); for hot paths.
#ifdef TENSORPAGER_DEBUG_CHECKS
#define TENSORPAGER_DCHECK(claim) TENSORPAGER_CHECK(claim)
#else
#define TENSORPAGER_DCHECK(claim) static_cast<void>(0)
#endif
