// What one look at a recorded stream teaches: a class of windows, and a plan for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/result.h"
#include "tensorpager/pager/plan_cursor.h"
#include "tensorpager/plan/agenda.h"
#include "tensorpager/plan/machine.h"
#include "tensorpager/trace/stream.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::guide {

struct Lesson {
  std::shared_ptr<const plan::Agenda> agenda;
  std::vector<std::uint64_t> blocks;  // by storage, its number when the last window ended; 0: not alive then
  std::uint64_t windows_end = 0;      // ops of the session before that
  std::thread::id thread = {};        // that calls the ops
  base::Bytes need = {};
  base::Bytes floor = {};
  double lower_bound_overhead = 0;  // of a window's compute

  const plan::Prediction& predicted() const { return agenda->plan().predicted; }
  double predicted_overhead() const;
  /// For people.
  std::string describe() const;
};

enum class NoLesson : std::uint8_t {
  kNoWindow,     // nothing that came twice
  kFits,         // all of it is within the budget
  kBelowFloor,   // some op needs more than the budget
};

/// The machine that a session runs on, by what its transfers reached: recorded op times hold as they are.
plan::Machine machine_of(const transfer::Engine::Rates& rates);

/// Of the class that makes up most of the stream.
base::Result<Lesson, NoLesson> learn(const trace::Stream& stream, base::Bytes budget, const plan::Machine& machine);

/// Tells the cursor the stream's ops since the lesson's last window, so that it stands where the program does. `blocks`:
/// those alive now, by number. False where those ops are no longer known.
bool catch_up(pager::PlanCursor& cursor, const Lesson& lesson, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks);

}  // namespace tensorpager::guide
