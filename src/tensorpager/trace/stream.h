// The ops of a program, before its windows are known: like a trace, but storages may live from before the first op to
// after the last.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/event_sink.h"

namespace tensorpager::trace {

struct StreamStorage {
  static constexpr std::size_t kBefore = std::numeric_limits<std::size_t>::max();  // born before the first op
  static constexpr std::size_t kNever = kBefore;                                   // alive after the last

  base::Bytes bytes = {};
  std::size_t born = kBefore;   // index of the op
  std::size_t died = kNever;    // freed after this op and before the next
  std::string_view maker = {};  // name of the op that made it
  bool from_backward = false;   // made while the autograd engine ran: a gradient, if it outlives that run
  std::uint64_t block = 0;      // its number in the session
};

struct StreamTouch {
  std::size_t storage;
  bool written;
};

struct StreamOp {
  base::OpFacts facts;
  std::vector<StreamTouch> touched = {};  // alive before the op; the op's arguments first
  std::size_t arguments = 0;              // how many of `touched` are arguments
  std::vector<std::size_t> births = {};   // storages
  std::vector<std::uint32_t> made =
      {};  // by birth: its position among all storages that the op made, temporaries included; empty if unknown
  std::vector<std::size_t> deaths = {};  // storages
  base::Bytes temporary = {};            // charged
  std::chrono::nanoseconds time{0};
  base::Bytes slab = {};             // charged for small storages when the op ended
  std::uint32_t optimizer_step = 0;  // number of the optimizer step that the op is part of; 0: none
  std::uint32_t steps_before = 0;    // steps that the program marked before it
  std::thread::id thread = {};       // that called it
};

struct Stream {
  base::Bytes granule = base::kPage;
  std::vector<StreamStorage> storages = {};
  std::vector<StreamOp> ops = {};
  std::uint64_t first = 0;  // number of ops of the session before ops.front()
};

}  // namespace tensorpager::trace
