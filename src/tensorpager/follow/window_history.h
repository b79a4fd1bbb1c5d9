// The classes of the last windows, and which comes next: programs repeat themselves, so it is the one that came most
// often after the longest sequence of windows that equals the last ones; of several the newest.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace tensorpager::follow {

class WindowHistory {
 public:
  explicit WindowHistory(std::size_t classes) : classes_(classes) {}

  /// A window of this class has ended.
  void note(std::size_t i);
  /// The last one was no window by itself.
  void take_back();
  /// Nothing is known but the last window.
  void start_after(std::size_t i);

  /// Returns nullopt if no sequence has come before.
  std::optional<std::size_t> likely_next() const { return likely_next_; }
  /// The class of the last window.
  std::optional<std::size_t> last() const { return ended_.empty() ? std::nullopt : std::optional(ended_.back()); }

 private:
  std::optional<std::size_t> find_likely() const;

  std::size_t classes_;
  std::deque<std::size_t> ended_;  // newest last
  std::optional<std::size_t> likely_next_;
};

}  // namespace tensorpager::follow
