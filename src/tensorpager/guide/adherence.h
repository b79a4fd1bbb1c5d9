// Whether the program does as the active plan says, and whether planning again may give a better one. Counts go in; a
// verdict comes out. It knows no pager and no thread, and its owner's lock guards it.
//
//   share of ops followed   verdict
//   kMostFollowed or more   kAnalyse as long as planning again may gain something, then kPause; for similar windows, of
//                           which the next may differ, kAnalyse ever more rarely and never kPause
//   between                 kAnalyse ever more rarely: the other ops may never repeat
//   below kLeastFollowed    kDrop
//
// A user-supplied plan is not planned again, and no other takes its place, until it is dropped.
#pragma once

#include <cstdint>

namespace tensorpager::guide {

class Adherence {
 public:
  enum class Verdict : std::uint8_t { kKeep, kAnalyse, kPause, kDrop };
  enum class Windows : std::uint8_t { kEqual, kSimilar };
  struct Counts {
    std::uint64_t ops = 0;       // that touch a block
    std::uint64_t followed = 0;  // of these
  };

  static constexpr double kMostFollowed = 0.95;
  static constexpr double kLeastFollowed = 0.3;
  static constexpr double kLeastGain = 0.02;  // share of a window's time: a plan is not replaced for less
  static constexpr std::uint64_t kMostReplacements = 3;
  static constexpr std::uint64_t kChecksBeforePause = 2;

  /// `most_replacements`: how often an active plan is replaced by a quicker one; 0: never.
  explicit Adherence(std::uint64_t most_replacements) : most_replacements_(most_replacements) {}

  static bool is_followed(std::uint64_t followed, std::uint64_t ops);

  /// A plan became active: while none was; in place of another; or one that the user supplied.
  void activated(Counts now);
  void replaced(Counts now);
  void activated_user_supplied(Counts now);
  /// Judges what the program did since the last call of any function that takes counts.
  Verdict check(Counts now, Windows windows);
  /// Recording resumed after a pause.
  void resumed(Counts now);

  /// Planning again gains nothing, until what the program does changes.
  void converge() { has_converged_ = true; }
  /// Whether a plan that saves this share of the active plan's time should replace it.
  bool is_worthwhile(double gain) const { return most_replacements_ > 0 && gain >= kLeastGain; }
  /// Plans in a row that were dropped, none of which held at any check.
  std::uint64_t drops() const { return drops_; }

 private:
  enum class Origin : std::uint8_t { kMade, kUserSupplied };

  void begin_at(Counts now);
  void reconsider();
  Verdict analyse_more_rarely();

  const std::uint64_t most_replacements_;
  Origin origin_ = Origin::kMade;
  bool has_converged_ = false;
  std::uint64_t replacements_ = 0;  // since it was last open whether planning again gains something
  Counts last_;                     // at the last check
  std::uint64_t held_ = 0;          // checks in a row at which the plan was followed
  std::uint64_t drops_ = 0;
  std::uint64_t deviations_ = 0;  // checks at which the program did other than planned, or may do
};

}  // namespace tensorpager::guide
