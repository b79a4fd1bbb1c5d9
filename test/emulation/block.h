// The bytes of one storage: in the budget, in a host buffer, or in both.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "fence.h"

namespace mini_pager {

struct Block {
  explicit Block(std::size_t size, c10::Stream allocated_on) : bytes(size), home(allocated_on) { add_user(home); }

  void add_user(c10::Stream stream) { users.insert_or_assign(stream.id(), stream); }

  std::size_t bytes;
  c10::Stream home;                            // the stream that was current at allocation
  char* at = nullptr;                          // null: paged out
  c10::StorageImpl* storage = nullptr;         // null until an op has had it; it is not paged out before
  int pins = 0;                                // ops that run with it
  bool dirty = true;                           // the host buffer is not there or has older bytes
  std::uint64_t last_use = 0;                  // by the pager's clock
  std::map<c10::StreamId, c10::Stream> users;  // streams that used `at`, but for the page-in
  Fence paged_in;
  at::DataPtr host;
  Fence paged_out;
};

}  // namespace mini_pager
