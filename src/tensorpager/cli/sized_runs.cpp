#include "tensorpager/cli/sized_runs.h"

#include <chrono>
#include <cstdio>
#include <future>

#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {

void SizedRuns::say(const std::string& text) const {
  if (options_.says_what_is_run) std::fprintf(stderr, "tensorpager: %s\n", text.c_str());
}

void SizedRuns::say_run(std::uint64_t size, Way way) const {
  say((way == Way::kTimed ? "run at " : "dry run at ") + name() + " " + std::to_string(size));
}

std::filesystem::path SizedRuns::log(const std::string& name) const {
  return options_.verbose ? std::filesystem::path() : scratch_ / (name + ".log");
}

fit::SizedTrace SizedRuns::traced(std::uint64_t size, Way way, Lists lists, base::Bytes budget) {
  say_run(size, way);
  return take(size, trace_of(size, way, lists, budget));
}

std::pair<fit::SizedTrace, fit::SizedTrace> SizedRuns::traced_twice(std::uint64_t size, Way way, Lists lists) {
  if (way == Way::kTimed) {
    fit::SizedTrace first = traced(size, way, lists);
    return {std::move(first), traced(2 * size, way, lists)};
  }
  const auto start = [&](std::uint64_t of) {
    say_run(of, way);
    return std::async(std::launch::async, [=, this] { return trace_of(of, way, lists, base::kUnlimited); });
  };
  std::future<Traced> first = start(size), second = start(2 * size);
  fit::SizedTrace small = take(size, first.get());
  return {std::move(small), take(2 * size, second.get())};
}

fit::SizedTrace SizedRuns::take(std::uint64_t size, Traced found) {
  if (found.reserved) reserved_[size] = *found.reserved;
  return {size, std::move(found.trace)};
}

SizedRuns::Traced SizedRuns::trace_of(std::uint64_t size, Way way, Lists lists, base::Bytes budget) const {
  const bool is_dry = way != Way::kTimed;
  const std::string name = std::to_string(size);
  const DryRun run{.card = options_.card,
                   .trace = scratch_ / (name + ".trace"),
                   .stats = scratch_ / (name + ".json"),
                   .log = log(name),
                   .budget = is_dry ? options_.budget : budget,
                   .dry = is_dry,
                   .longer = way == Way::kDryAndLonger ? kLonger : std::chrono::seconds(0),
                   .all_storages = lists == Lists::kAll};
  run_dry(run, template_.at(size), "answer");
  return {.trace = trace::read_trace_file(run.trace.string()),
          .reserved = options_.card.empty() ? std::nullopt : std::optional(torch_memory_of(run).most_reserved)};
}

double SizedRuns::per_second_under_plans(base::Bytes budget, std::uint64_t size) const {
  say("run under the budget at " + name() + " " + std::to_string(size));
  const auto step = step_under_plans(budget, scratch_ / "measured.json", log("measured"), template_.at(size));
  return step ? static_cast<double>(size) / step->count() : 0;
}

fit::Gradients SizedRuns::gradients(unsigned steps, std::uint64_t size) const {
  say(std::to_string(steps) + " real steps at " + name() + " " + std::to_string(size));
  const RealSteps run{
      .card = options_.card, .steps = steps, .gradients = scratch_ / "gradients.json", .log = log("gradients")};
  return gradients_of(run, template_.at(size));
}

}  // namespace tensorpager::cli
