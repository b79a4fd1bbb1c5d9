#include "tensorpager/guide/profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/plan/timing.h"

namespace tensorpager::guide {

plan::Prediction ClassProfile::predicted() const {
  plan::Prediction prediction = agenda->plan().predicted;
  prediction.compute = compute;
  return prediction;
}

const ClassProfile* Profile::find(const std::vector<base::OpSignature>& signatures) const {
  const auto found = std::ranges::find(
      classes, signatures, [](const ClassProfile& one) -> const auto& { return one.agenda->program_signatures(); });
  return found != classes.end() ? &*found : nullptr;
}

bool Profile::has_similar() const { return std::ranges::any_of(classes, &ClassProfile::is_similar); }

bool Profile::has_replays() const {
  return std::ranges::any_of(classes, [](const ClassProfile& one) { return one.agenda->replays().any(); });
}

std::vector<plan::Prediction> Profile::predict_again(const Profile& other, const machine::Machine& machine) const {
  std::vector<plan::Prediction> predictions;
  for (const ClassProfile& one : classes) {
    const ClassProfile* const same = other.find(one.agenda->program_signatures());
    if (same == nullptr) return {};
    const plan::Plan& plan = same->agenda->plan();
    if (one.trace->slab > plan.slab + plan.reserve) return {};
    const auto rewriting = plan::rewrite(*one.trace, plan.replays);
    if (!rewriting) return {};  // a replay was found to give something else
    const auto op_times = plan::op_times(rewriting.value().trace, machine);
    predictions.push_back(plan::predict(plan, op_times, machine));
    predictions.back().compute = machine.time_of_ops(*one.trace);
  }
  return predictions;
}

double gain_over(const Profile& profile, const std::vector<plan::Prediction>& others) {
  double now = 0, before = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const ClassProfile& one = profile.classes[i];
    // The share is of the program's ops, so a class takes that times their mean time, that of its replays included.
    const double weight = one.share / static_cast<double>(one.agenda->replays().program_ops().size());
    now += weight * std::chrono::duration<double>(one.predicted().step).count();
    before += weight * std::chrono::duration<double>(others[i].step).count();
  }
  return before > 0 ? 1 - now / before : 0;
}

std::string Profile::describe() const {
  std::string text;
  const auto percent = [](double share) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f %%", share * 100);
    return std::string(digits.data());
  };
  for (const ClassProfile& one : classes) {
    const plan::Prediction predicted = one.predicted();
    text += (text.empty() ? "" : "; ") + std::string(one.is_similar ? "variable-shape step of about " : "step of ") +
            std::to_string(one.agenda->replays().program_ops().size()) + " ops (need " + base::format_bytes(one.need) +
            ", floor " + base::format_bytes(one.floor) + "), " + base::format_bytes(predicted.page_out) + " out and " +
            base::format_bytes(predicted.page_in) + " in, predicted overhead " +
            percent(plan::overhead_of(predicted.step, predicted.compute));
    if (one.lower_bound_overhead) {
      text += one.agenda->replays().any() ? " (without recomputation at least " : " (lower bound ";
      text += percent(*one.lower_bound_overhead) + ")";
    }
  }
  return text;
}

Profile profile_of(std::vector<plan::GivenPlan> plans) {
  Profile profile;
  profile.origin = Profile::Origin::kUser;
  for (plan::GivenPlan& one : plans) {
    const plan::Liveness liveness(one.trace);
    std::chrono::nanoseconds compute = one.plan.predicted.compute;
    for (const plan::Replay& replay : one.plan.replays) compute -= one.trace.ops[replay.op].time;
    profile.classes.push_back({.agenda = std::make_shared<const follow::Agenda>(one.trace, std::move(one.plan)),
                               .trace = nullptr,
                               .blocks = std::vector<std::uint64_t>(one.trace.storages.size()),
                               .need = liveness.need(),
                               .floor = liveness.floor(),
                               .compute = compute,
                               .share = 1.0 / static_cast<double>(plans.size())});
    profile.classes.back().trace = std::make_shared<const trace::Trace>(std::move(one.trace));
  }
  return profile;
}

}  // namespace tensorpager::guide
