#include "tensorpager/guide/lesson.h"

#include <array>
#include <cstdio>

#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/lower_bound.h"
#include "tensorpager/plan/planner.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::guide {

using base::Bytes;
using trace::index;
using trace::StorageId;

namespace {

/// Of a direction in which nothing was moved yet. A plan for a slower link begins its transfers earlier.
constexpr double kUnknownRate = 1e9;

plan::Link link_of(double bytes_per_second) {
  return {.latency = {},
          .steps = {{.from = {}, .bytes_per_second = bytes_per_second > 0 ? bytes_per_second : kUnknownRate}}};
}

double overhead_of(plan::Nanoseconds step, plan::Nanoseconds compute) {
  return compute.count() > 0 ? static_cast<double>(step.count()) / static_cast<double>(compute.count()) - 1 : 0;
}

std::vector<std::uint64_t> blocks_at_end(const trace::Stream& stream, trace::Span window) {
  std::vector<std::uint64_t> blocks;
  for (const std::size_t i : trace::storages_at_end(stream, window))
    blocks.push_back(i != trace::StreamStorage::kNever ? stream.storages[i].block : 0);
  return blocks;
}

}  // namespace

double Lesson::predicted_overhead() const { return overhead_of(predicted().step, predicted().compute); }

std::string Lesson::describe() const {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "a plan for windows of %u ops (need %s, floor %s) is in force: %s out and %s in each, overhead %.1f %% "
                "predicted, at least %.1f %%",
                agenda->ops(), base::format_bytes(need).c_str(), base::format_bytes(floor).c_str(),
                base::format_bytes(predicted().page_out).c_str(), base::format_bytes(predicted().page_in).c_str(),
                predicted_overhead() * 100, lower_bound_overhead * 100);
  return text.data();
}

plan::Machine machine_of(const transfer::Engine::Rates& rates) {
  plan::Machine machine;
  machine.name = "session";
  machine.out = link_of(rates.out);
  machine.in = link_of(rates.in);
  return machine;
}

base::Result<Lesson, NoLesson> learn(const trace::Stream& stream, Bytes budget, const plan::Machine& machine) {
  const std::vector<trace::WindowClass> classes = trace::classify_windows(stream);
  if (classes.empty() || classes.front().windows.size() < 2) return NoLesson::kNoWindow;
  const trace::WindowClass& found = classes.front();
  const plan::Liveness liveness(found.trace);
  if (liveness.need() <= budget) return NoLesson::kFits;
  const auto plan = plan::make_planner("pages")->plan({.trace = found.trace, .machine = machine, .budget = budget});
  if (!plan) return NoLesson::kBelowFloor;

  const trace::Span last = found.windows.back();
  Lesson lesson{.agenda = std::make_shared<const plan::Agenda>(found.trace, plan.value()),
                .blocks = blocks_at_end(stream, last),
                .windows_end = stream.first + last.end,
                .thread = stream.ops[last.begin].thread,
                .need = liveness.need(),
                .floor = liveness.floor()};
  const auto bound = plan::lower_bound(liveness, plan::op_times(found.trace, machine), machine, budget);
  lesson.lower_bound_overhead = overhead_of(bound, lesson.predicted().compute);
  return lesson;
}

bool catch_up(pager::PlanCursor& cursor, const Lesson& lesson, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks) {
  if (stream.first > lesson.windows_end || stream.first + stream.ops.size() < lesson.windows_end) return false;
  std::unordered_map<std::uint64_t, std::unique_ptr<pager::Block>> gone;  // in the place of those that died since
  const auto block_of = [&](std::uint64_t number, Bytes size) -> pager::Block& {
    const auto found = blocks.find(number);
    if (found != blocks.end()) return *found->second;
    auto& block = gone[number];
    if (!block) {
      block = std::make_unique<pager::Block>();
      block->size = size;
    }
    return *block;
  };
  for (std::uint32_t i = 0; i < lesson.blocks.size(); ++i)
    if (lesson.blocks[i] != 0)
      cursor.bind(StorageId{i}, block_of(lesson.blocks[i], lesson.agenda->storage_size(StorageId{i})));

  std::vector<pager::Action> actions;  // of what is over
  for (std::size_t at = lesson.windows_end - stream.first; at < stream.ops.size(); ++at) {
    const trace::StreamOp& op = stream.ops[at];
    plan::OpSignature signature{.name = plan::name_hash(op.facts.name)};
    for (const trace::StreamTouch& touch : op.touched) signature.add(stream.storages[touch.storage].bytes);
    const bool is_expected = cursor.begin_op(signature, actions);
    for (const std::size_t i : op.births)
      cursor.created(block_of(stream.storages[i].block, stream.storages[i].bytes));
    if (op.temporary > Bytes(0)) {
      pager::Block temporary;
      cursor.created(temporary);
      cursor.died(temporary);
    }
    if (is_expected) cursor.end_op(actions);
    for (const std::size_t i : op.deaths)
      cursor.died(block_of(stream.storages[i].block, stream.storages[i].bytes));
  }
  for (const auto& [number, block] : gone) cursor.died(*block);
  cursor.begin_here();
  return true;
}

}  // namespace tensorpager::guide
