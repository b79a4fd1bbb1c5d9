// What only a binding does under which blocks keep their addresses: it moves pages between the blocks and a pool.
#pragma once

#include "tensorpager/base/bytes.h"

namespace tensorpager::pager {

struct Relocation;

/// All calls but `relocate` are made with the pager's lock held.
class PageMover {
 public:
  virtual ~PageMover() = default;

  /// Whether an unbind and a later bind would stay within the machine's limits.
  virtual bool may_unbind() = 0;
  /// Makes the system calls of an unbind or a bind. Throws IoError if the machine refuses; then it must be cancelled.
  /// Any thread may call it, without the lock and while others do.
  virtual void relocate(const Relocation& relocation) = 0;
  /// The account of a relocation: what it moves is there, or will be when it is carried out. After an unbind the pages
  /// are staged: pass them to `begin_bind` or `discard`.
  virtual void end_relocation(const Relocation& relocation) noexcept = 0;
  /// Instead: restores the state before it began, except that staged pages are gone.
  virtual void cancel_relocation(const Relocation& relocation) noexcept = 0;

  /// Gives pooled pages back to the machine until the pool is within the allowance.
  virtual void trim_pool(base::Bytes allowance) = 0;
  virtual base::Bytes pooled() const = 0;  // bytes in the pool now
  /// Bytes of fresh pages, which the machine zeroes, that the binding itself has asked for so far.
  virtual base::Bytes populated() const = 0;
};

}  // namespace tensorpager::pager
