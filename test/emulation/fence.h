// What must be complete before bytes may be touched: an event on each stream that used them.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>

namespace mini_pager {

class Fence {
 public:
  /// Adds all that is queued on the stream by now.
  void record(c10::Stream stream);
  /// Adds another fence. A newer event of a stream covers the older ones.
  void merge(const Fence& other);
  /// Makes what is queued on the stream from now on wait; the host does not wait.
  void block(c10::Stream stream) const;

 private:
  struct Mark {
    std::shared_ptr<c10::Event> event;
    std::uint64_t order = 0;  // of recording, over all streams
  };

  std::map<c10::StreamId, Mark> marks_;
};

}  // namespace mini_pager
