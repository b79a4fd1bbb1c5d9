// The four kinds of failure, each with its form: the caller's mistake (InvalidArgument), the environment (IoError), an
// op that no eviction can make fit (OverBudget), and our own bug (TENSORPAGER_CHECK).
#pragma once

#include <stdexcept>
#include <string>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

/// A bad option or a bad file. The text says what, where and what to try; it is one line.
class InvalidArgument : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A call to the operating system that failed: which call, on what, how many bytes, errno and its text.
class IoError : public std::runtime_error {
 public:
  /// `place` reads on from "bytes to": "the spill file in /tmp". No count is shown where `bytes` is 0; `advice` says
  /// what to try.
  IoError(const std::string& call, const std::string& place, Bytes bytes, int error_number,
          const std::string& advice = "");
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

/// What is pinned together with what is asked for does not fit, whatever is evicted; or it does, but not in one piece.
/// Raised before any contents changed: the caller may free memory and go on.
class OverBudget : public std::runtime_error {
 public:
  /// `largest_place`: the largest piece that eviction could free, where blocks share one arena.
  OverBudget(Bytes asked, Bytes pinned, Bytes budget, Bytes largest_place = kUnlimited);
  Bytes asked() const { return asked_; }    // bytes that were wanted now
  Bytes pinned() const { return pinned_; }  // bytes that cannot be evicted now
  Bytes budget() const { return budget_; }  // the limit

 private:
  Bytes asked_;
  Bytes pinned_;
  Bytes budget_;
};

/// Prints the claim and where it was made, then aborts: the state can no longer be trusted.
[[noreturn]] void fail_check(const char* claim, const char* file, int line);

}  // namespace tensorpager::base

/// Always on; for cold paths.
#define TENSORPAGER_CHECK(claim)                                   \
  do {                                                             \
    if (!(claim)) [[unlikely]]                                     \
      ::tensorpager::base::fail_check(#claim, __FILE__, __LINE__); \
  } while (false)

/// On where TENSORPAGER_DEBUG_CHECKS is defined (not tied to NDEBUG, which torch's headers need); for hot paths.
#ifdef TENSORPAGER_DEBUG_CHECKS
#define TENSORPAGER_DCHECK(claim) TENSORPAGER_CHECK(claim)
#else
#define TENSORPAGER_DCHECK(claim) static_cast<void>(0)
#endif
