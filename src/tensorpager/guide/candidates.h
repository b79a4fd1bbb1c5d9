// Classes of windows that are worth a plan, before there is one.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/trace/stream.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::guide {

struct Profile;

struct Candidate {
  trace::Trace trace;
  std::vector<base::OpSignature> signatures;
  std::vector<std::uint64_t> blocks;  // by storage: its block's number; 0: none
  std::uint64_t blocks_at;            // the op index of the session at which `blocks` holds
  std::uint64_t end;                  // op index at the end of the last window
  double share;                       // of the class in all recorded ops
  bool is_similar = false;            // no two of its windows are equal
};

/// The signature by which an op is recognized when it begins.
base::OpSignature signature_of(const trace::Stream& stream, const trace::StreamOp& op);

/// Classes that came again, and similar windows if most did not; the largest share first.
std::vector<Candidate> candidates_in(const std::vector<trace::WindowClass>& classes, const trace::Stream& stream);

/// Adds known classes: what the program did before it may do again. Adds none that the user supplied: their blocks are
/// unknown, so that no storage would be known as the same in all classes.
void add_known(std::vector<Candidate>& candidates, const Profile& known);

/// Makes what is the same storage or slab in all of them so in their traces; sets blocks to those when the newest
/// window ends.
void relate(std::vector<Candidate>& candidates, const std::vector<trace::WindowClass>& classes,
            const trace::Stream& stream);

}  // namespace tensorpager::guide
