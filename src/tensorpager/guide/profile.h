// The profile from one analysis of a recorded stream: the classes of windows that make up most of it, and a plan for
// each.
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
#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/plan_switch.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/plan/given.h"
#include "tensorpager/plan/plan_cache.h"
#include "tensorpager/trace/stream.h"

namespace tensorpager::guide {

struct ClassProfile {
  std::shared_ptr<const follow::Agenda> agenda;
  std::shared_ptr<const trace::Trace> trace;
  std::vector<std::uint64_t> blocks;  // by storage: its block when the newest window of any class ended; 0: none
  std::uint64_t end = 0;              // op index of the session at the end of the last window
  base::Bytes need = {};
  base::Bytes floor = {};
  double share = 0;                                 // of the class in all recorded ops
  bool is_similar = false;                          // no two of its windows are equal; the plan is for similar ones
  std::optional<double> lower_bound_overhead = {};  // over a window's compute time; unknown for a user-supplied plan

  const plan::Prediction& predicted() const { return agenda->plan().predicted; }
};

/// Planned step time over compute time, minus 1.
double overhead_of(const plan::Prediction& predicted);

struct Profile {
  std::vector<ClassProfile> classes;  // the largest share first
  std::thread::id thread = {};        // the thread that calls the ops
  bool is_kept = false;               // its plans were kept from an earlier session

  /// The class whose ops have these signatures; null if there is none.
  const ClassProfile* find(const std::vector<base::OpSignature>& signatures) const;
  /// A line for people.
  std::string describe() const;
  /// Whether the program may do other than any of its windows although it does as planned.
  bool has_similar() const;
  /// Whether it has a class that the other lacks.
  bool has_more_than(const Profile& other) const;
  /// What the other's plans predict by the op times of this profile and on this machine, for the classes that both
  /// have, the largest share first; empty if a class is in one only.
  std::vector<plan::Prediction> predict_again(const Profile& other, const machine::Machine& machine) const;
};

enum class NoProfile : std::uint8_t {
  kNoWindow,    // no window came twice
  kFits,        // all of it is within the budget
  kBelowFloor,  // some op needs more than the budget
};

/// The signature by which an op is recognized when it begins.
base::OpSignature signature_of(const trace::Stream& stream, const trace::StreamOp& op);

/// The machine that a session runs on, by the measured costs of its transfers: recorded op times hold as they are.
machine::Machine machine_of(const pager::TransferCosts& costs);

/// `known`: the profile before, of the same thread; its classes are planned too. `cache`: plans of earlier sessions,
/// which are used if not all classes are known. Both may be null.
base::Result<Profile, NoProfile> analyse(const trace::Stream& stream, base::Bytes budget,
                                         const machine::Machine& machine, const Profile* known = nullptr,
                                         const plan::PlanCache* cache = nullptr);

/// The share of time that the profile's plans save, as predicted, compared with `others` for the same classes.
double gain_over(const Profile& profile, const std::vector<plan::Prediction>& others);

/// For user-supplied plans: nothing is known of the blocks there are.
Profile profile_of(std::vector<plan::GivenPlan> given);

/// Replays the stream's ops since the last window, so that `follower` stands where the program does. `blocks`: those
/// alive now, by number. Returns false if those ops are no longer known.
bool catch_up(follow::PlanSwitch& follower, const Profile& profile, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks);

}  // namespace tensorpager::guide
