// `tensorpager simulate`: what a plan, from a file or from a planner, costs on a machine.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/cli/print_json.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SimulateOptions {
  PlanningOptions planning;
  std::string plan;
  bool curve = false;
  bool json = false;
};

Json to_json(const plan::Liveness& liveness, base::Bytes budget, const std::optional<planning::Infeasible>& why,
             const std::optional<Figures>& figures) {
  const auto or_null = [&](auto get) { return figures ? Json(get(*figures)) : Json(nullptr); };
  return {{"fits", figures.has_value()},
          {"short_bytes", why ? why->short_by.count() : 0},
          {"short_op", why ? Json(why->op) : Json(nullptr)},
          {"budget_bytes", budget.count()},
          {"need_bytes", liveness.need().count()},
          {"floor_bytes", liveness.floor().count()},
          {"peak_bytes", or_null([](const Figures& f) { return f.peak.count(); })},
          {"step_seconds", or_null([](const Figures& f) { return f.step_seconds; })},
          {"overhead", or_null([](const Figures& f) { return f.overhead; })},
          {"lower_bound_overhead", or_null([](const Figures& f) { return f.lower_bound_overhead; })},
          {"recompute_seconds", or_null([](const Figures& f) { return f.recompute_seconds; })},
          {"stall_seconds", or_null([](const Figures& f) { return f.stall_seconds; })},
          {"page_out_bytes", or_null([](const Figures& f) { return f.page_out.count(); })},
          {"page_in_bytes", or_null([](const Figures& f) { return f.page_in.count(); })},
          {"host_bytes", or_null([](const Figures& f) { return f.host.count(); })},
          {"placement_waste", or_null([](const Figures& f) { return f.placement_waste; })},
          {"caching_waste", or_null([](const Figures& f) { return f.caching_waste; })}};
}

void show(const SimulateOptions& options, const trace::Trace& trace, const plan::Liveness& liveness,
          const plan::Plan& plan, const machine::Machine& machine) {
  const sim::Outcome outcome = sim::simulate(trace, plan, machine);
  const Figures figures(trace, liveness, plan, machine, outcome);
  if (options.json) {
    Json all = to_json(liveness, plan.budget, std::nullopt, figures);
    if (options.curve) {
      for (const base::Bytes bytes : outcome.measured.curve) all["curve"].push_back(bytes.count());
      for (const auto start : outcome.starts) all["op_starts"].push_back(std::chrono::duration<double>(start).count());
    }
    return print_json(all);
  }
  std::printf("%s\n", describe(figures).c_str());
  if (!options.curve) return;
  const plan::Liveness rewritten(plan::rewritten(trace, plan));
  std::printf("op start_ns charged_bytes live_bytes\n");
  for (std::uint32_t op = 0; op < plan.ops; ++op)
    std::printf("%u %lld %llu %llu\n", op, static_cast<long long>(outcome.starts[op].count()),
                static_cast<unsigned long long>(outcome.measured.curve[op].count()),
                static_cast<unsigned long long>(rewritten.live(op).count()));
}

void simulate_plan(const SimulateOptions& options) {
  const trace::Trace trace = trace::read_trace_file(options.planning.trace);
  const machine::Machine machine = machine::find_machine(options.planning.machine);
  const plan::Plan plan = plan::read_plan_file(options.plan);
  require_valid(trace, plan, options.plan);
  show(options, trace, plan::Liveness(trace), plan, machine);
}

void simulate(const SimulateOptions& options) {
  if (!options.plan.empty()) return simulate_plan(options);
  if (options.planning.budget.empty()) throw base::InvalidArgument("simulate: write --budget SIZE, or --plan FILE");
  const Planning planning(options.planning);
  if (!planning.result() && options.json)
    print_json(to_json(planning.liveness(), planning.budget(), planning.result().error(), std::nullopt));
  planning.require_plan();
  show(options, planning.trace(), planning.liveness(), planning.result().value(), planning.machine());
}

}  // namespace

void add_simulate_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb =
      app.add_subcommand("simulate", "Run a trace under a budget on a virtual machine: time, stalls, bytes");
  add_planning_options(*verb, options->planning);
  verb->get_option("--budget")->required(false);
  verb->add_option("--plan", options->plan, "Follow this plan, with its budget, instead of making one");
  verb->add_flag("--curve", options->curve, "When every op begins, and the charged bytes during it, too");
  verb->add_flag("--json", options->json, "One JSON object instead of a line");
  verb->footer("Example:\n  tensorpager simulate step.trace --budget 50% --machine h200-141g --json");
  verb->callback([options] { simulate(*options); });
}

}  // namespace tensorpager::cli
