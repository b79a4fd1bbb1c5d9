#include "tensorpager/base/errors.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace tensorpager::base {
namespace {

struct Phrase {
  const char* call;
  const char* verb;
  const char* preposition;
};

constexpr Phrase kPhrases[] = {
    {"pwrite", "write", "to"}, {"write", "write", "to"},  {"pread", "read", "from"},    {"read", "read", "from"},
    {"open", "open", "of"},    {"mkstemp", "make", "of"}, {"reserve", "reserve", "of"}, {"mmap", "map", "of"},
};
constexpr Phrase kOtherPhrase = {"", "use", "of"};

std::string io_text(const std::string& call, const std::string& place, Bytes bytes, int error_number,
                    const std::string& advice) {
  const auto* found = std::ranges::find(kPhrases, call, &Phrase::call);
  const Phrase& phrase = found == std::end(kPhrases) ? kOtherPhrase : *found;
  std::string text = std::string("cannot ") + phrase.verb + " ";
  if (bytes > 0_B) text += std::to_string(bytes.count()) + " bytes " + phrase.preposition + " ";
  text += place + " (" + call + ": " + std::generic_category().message(error_number) + ")";
  return advice.empty() ? text : text + "; " + advice;
}

std::string over_budget_text(Bytes asked, Bytes pinned, Bytes budget, Bytes largest_place,
                             const std::string& other_way) {
  const Bytes wanted = asked + pinned;
  if (wanted <= budget)
    return "out of memory under the budget: " + format_bytes(asked) + " asked for and " + format_bytes(pinned) +
           " pinned would fit the budget of " + format_bytes(budget) +
           ", but the largest place between what is pinned is " + format_bytes(largest_place) +
           "; try a larger --budget or " + other_way;
  const Bytes short_by = wanted > budget ? wanted - budget : 0_B;
  return "out of memory under the budget: " + format_bytes(asked) + " asked for and " + format_bytes(pinned) +
         " pinned are " + std::to_string(short_by.count()) + " bytes more than the budget of " + format_bytes(budget) +
         "; try a larger --budget or a smaller batch";
}

}  // namespace

IoError::IoError(const std::string& call, const std::string& place, Bytes bytes, int error_number,
                 const std::string& advice)
    : std::runtime_error(io_text(call, place, bytes, error_number, advice)), error_number_(error_number) {}

OverBudget::OverBudget(Bytes asked, Bytes pinned, Bytes budget, Bytes largest_place, const std::string& other_way)
    : std::runtime_error(over_budget_text(asked, pinned, budget, largest_place, other_way)),
      asked_(asked),
      pinned_(pinned),
      budget_(budget) {}

void fail_check(const char* claim, const char* file, int line) {
  std::fprintf(stderr, "tensorpager: internal error: %s at %s:%d; please report\n", claim, file, line);
  std::abort();
}

}  // namespace tensorpager::base
