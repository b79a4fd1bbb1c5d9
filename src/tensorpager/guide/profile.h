// The profile of a program: the classes of windows that make up most of what it does, and a plan for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/follow/agenda.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/given.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::guide {

struct ClassProfile {
  std::shared_ptr<const follow::Agenda> agenda;
  std::shared_ptr<const trace::Trace> trace;
  std::vector<std::uint64_t> blocks;  // by storage: its block when the newest window of any class ended; 0: none
  std::uint64_t end = 0;              // op index of the session at the end of the last window
  base::Bytes need = {};
  base::Bytes floor = {};
  std::chrono::nanoseconds compute{0};              // of the program's ops in a window, without replays; as predicted
  double share = 0;                                 // of the class in all recorded ops
  bool is_similar = false;                          // no two of its windows are equal; the plan is for similar ones
  std::optional<double> lower_bound_overhead = {};  // over a window's compute time; unknown for a user-supplied plan

  /// By the plan, with `compute` as the compute time.
  plan::Prediction predicted() const;
};

struct Profile {
  enum class Origin : std::uint8_t { kAnalysis, kCache, kUser };

  std::vector<ClassProfile> classes;  // the largest share first
  std::thread::id thread = {};        // the thread that calls the ops
  Origin origin = Origin::kAnalysis;  // where its plans come from

  /// The class whose ops have these signatures; null if there is none.
  const ClassProfile* find(const std::vector<base::OpSignature>& signatures) const;
  /// A line for people.
  std::string describe() const;
  /// Whether the program may do other than any of its windows although it does as planned.
  bool has_similar() const;
  /// Whether its plans drop storages that replays rebuild.
  bool has_replays() const;
  /// What the other's plans predict by the op times of this profile and on this machine, the largest share first; empty
  /// if the other lacks a class of this one, or by now has a replay that is not possible, or no room for the slabs.
  std::vector<plan::Prediction> predict_again(const Profile& other, const machine::Machine& machine) const;
};

/// The share of time that the profile's plans save, as predicted, compared with `others` for the same classes.
double gain_over(const Profile& profile, const std::vector<plan::Prediction>& others);

/// For user-supplied plans: nothing is known of the blocks there are.
Profile profile_of(std::vector<plan::GivenPlan> plans);

}  // namespace tensorpager::guide
