// What one look at a recorded stream teaches: the classes of windows that make up most of it, and a plan for each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/result.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/plan_switch.h"
#include "tensorpager/plan/agenda.h"
#include "tensorpager/plan/given.h"
#include "tensorpager/plan/machine.h"
#include "tensorpager/plan/plan_cache.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::guide {

struct ClassLesson {
  std::shared_ptr<const plan::Agenda> agenda;
  std::shared_ptr<const trace::Trace> trace;
  std::vector<std::uint64_t> blocks;  // by storage, its number when the newest window of any class ended; 0: none
  std::uint64_t end = 0;              // of the last window: ops of the session before it
  base::Bytes need = {};
  base::Bytes floor = {};
  double share = 0;                                 // of all recorded ops
  bool is_alike = false;                            // no two of its windows are equal; it is for what is like them
  std::optional<double> lower_bound_overhead = {};  // of a window's compute; of a given plan it is not known

  const plan::Prediction& predicted() const { return agenda->plan().predicted; }
};

/// Of the window's compute.
double overhead_of(const plan::Prediction& predicted);

struct Lesson {
  std::vector<ClassLesson> classes;  // the largest share first
  std::thread::id thread = {};       // that calls the ops
  bool is_kept = false;              // its plans are of an earlier session

  /// The class whose ops are known by these; null where there is none.
  const ClassLesson* find(const std::vector<plan::OpSignature>& signatures) const;
  /// For people.
  std::string describe() const;
  /// Whether the program may do other than any of its windows, though it does as planned.
  bool has_alike() const;
  /// Whether a class is in it that the other has not.
  bool has_more_than(const Lesson& other) const;
  /// What the other's plans promise by the op times of this lesson and on this machine, for the classes that both have,
  /// the largest share first; nothing where a class is in one only.
  std::vector<plan::Prediction> predict_again(const Lesson& other, const plan::Machine& machine) const;
};

enum class NoLesson : std::uint8_t {
  kNoWindow,    // nothing came twice
  kFits,        // all of it is within the budget
  kBelowFloor,  // some op needs more than the budget
};

/// What an op is known by when it begins.
plan::OpSignature signature_of(const trace::Stream& stream, const trace::StreamOp& op);

/// The machine that a session runs on, by what its transfers reached: recorded op times hold as they are.
plan::Machine machine_of(const pager::TransferCosts& costs);

/// `known`: what was learned before, of the same thread; its classes are planned too. `cache`: has plans of earlier
/// sessions, which are taken where not all classes are known. Both may be null.
base::Result<Lesson, NoLesson> learn(const trace::Stream& stream, base::Bytes budget, const plan::Machine& machine,
                                     const Lesson* known = nullptr, const plan::PlanCache* cache = nullptr);

/// How much less time the program takes, as predicted, with the lesson's plans than with `others` for the same classes,
/// in shares of it.
double gain_over(const Lesson& lesson, const std::vector<plan::Prediction>& others);

/// Of plans that somebody made: nothing is known of the blocks there are.
Lesson lesson_of(std::vector<plan::GivenPlan> given);

/// Tells the stream's ops since the last window, so that who follows the plans stands where the program does. `blocks`:
/// those alive now, by number. False where those ops are no longer known.
bool catch_up(pager::PlanSwitch& follower, const Lesson& lesson, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks);

}  // namespace tensorpager::guide
