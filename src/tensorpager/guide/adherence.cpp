#include "tensorpager/guide/adherence.h"

#include <algorithm>
#include <bit>

namespace tensorpager::guide {
namespace {

double share_of(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max(whole, std::uint64_t{1}));
}

}  // namespace

bool Adherence::is_followed(std::uint64_t followed, std::uint64_t ops) {
  return share_of(followed, ops) >= kMostFollowed;
}

void Adherence::activated(Counts now) {
  origin_ = Origin::kMade;
  begin_at(now);
  reconsider();  // earlier analyses were of no plan
}

void Adherence::replaced(Counts now) {
  origin_ = Origin::kMade;
  begin_at(now);
  if (++replacements_ >= most_replacements_) has_converged_ = true;
}

void Adherence::activated_user_supplied(Counts now) {
  origin_ = Origin::kUserSupplied;
  begin_at(now);
  reconsider();
}

Adherence::Verdict Adherence::check(Counts now, Windows windows) {
  const double share = share_of(now.followed - last_.followed, now.ops - last_.ops);
  last_ = now;
  if (share >= kMostFollowed) {
    drops_ = 0;
    ++held_;
    if (!has_converged_) return Verdict::kAnalyse;
    if (windows == Windows::kSimilar) return analyse_more_rarely();
    return held_ >= kChecksBeforePause ? Verdict::kPause : Verdict::kKeep;
  }
  held_ = 0;
  if (share < kLeastFollowed) {
    ++drops_;
    return Verdict::kDrop;
  }
  return origin_ == Origin::kUserSupplied ? Verdict::kKeep : analyse_more_rarely();
}

void Adherence::resumed(Counts now) {
  begin_at(now);
  reconsider();
}

void Adherence::begin_at(Counts now) {
  last_ = now;
  held_ = 0;
}

/// Another plan may gain something by what the program does now.
void Adherence::reconsider() {
  replacements_ = 0;
  has_converged_ = origin_ == Origin::kUserSupplied || most_replacements_ == 0;
}

/// At the first such check, the second, the fourth, the eighth.
Adherence::Verdict Adherence::analyse_more_rarely() {
  return std::has_single_bit(++deviations_) ? Verdict::kAnalyse : Verdict::kKeep;
}

}  // namespace tensorpager::guide
