// The waits of the paging protocol. A test leaves one out to see that the mistake is caught:
// MINI_PAGER_SKIP=name,name. Without it the pager is right on every stream order that CUDA allows.
#pragma once

#include <bitset>

namespace mini_pager {

enum class Wait {
  kReuse,                   // the stream that gets a free range waits for whoever used it last
  kComputeBeforePageOut,    // a page-out waits for the kernels that use the block
  kPageOutBeforeReuse,      // a range is free when the page-out has read it
  kPageOutBeforePageIn,     // a page-in waits until the page-out has filled the host buffer
  kPageInBeforeCompute,     // a kernel waits for the page-in of what it uses
  kUsesOnOtherStreams,      // streams other than the one that allocated a block count as users
  kFenceOnStreamOfUse,      // a fence is recorded on the streams that used the block, not on the current one
  kBothFencesOfMerge,       // a range merged of two waits for the users of both
  kPageInBeforeEachStream,  // every stream waits for a page-in, not only the stream that it was made for
  kDirtyAfterWrite,         // a block that was written after its page-out is copied again
  kCount,
};

class Waits {
 public:
  /// From MINI_PAGER_SKIP. Throws c10::Error on a name that is none.
  static Waits from_environment();
  bool keeps(Wait wait) const { return !skipped_[static_cast<std::size_t>(wait)]; }

 private:
  std::bitset<static_cast<std::size_t>(Wait::kCount)> skipped_;
};

}  // namespace mini_pager
