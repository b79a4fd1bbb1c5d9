#include "tensorpager/cli/fit_screen.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tensorpager/cli/print_json.h"
#include "tensorpager/fit/estimate.h"

namespace tensorpager::cli {
namespace {

using Json = nlohmann::ordered_json;
using fit::Point;

double milliseconds(machine::Nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

Json to_json(const std::optional<Point>& point) {
  if (!point) return nullptr;
  return {{"size", point->size},
          {"per_second", point->per_second()},
          {"step_seconds", milliseconds(point->cost.step) / 1000},
          {"overhead", point->cost.overhead},
          {"need_bytes", point->need.count()},
          {"floor_bytes", point->floor.count()},
          {"page_out_bytes", point->cost.page_out.count()},
          {"page_in_bytes", point->cost.page_in.count()},
          {"host_bytes", point->cost.on_host.count()}};
}

void print_point(const std::string& label, const std::optional<Point>& point, const char* otherwise) {
  if (!point) {
    std::printf("  %-22s%10s\n", label.c_str(), otherwise);
    return;
  }
  std::printf("  %-22s%10llu%12.1f%9.1f ms%+9.1f %%%12s%14s\n", label.c_str(),
              static_cast<unsigned long long>(point->size), point->per_second(), milliseconds(point->cost.step),
              point->cost.overhead * 100, base::format_bytes(point->need).c_str(),
              base::format_bytes(point->cost.on_host).c_str());
}

Json to_json(const RanksAnswer& ranks, const Point& point) {
  const double step = milliseconds(ranks.reduction.step) / 1000;
  return {{"ranks", ranks.ranks.count},
          {"interconnect_bytes_per_second", ranks.ranks.bytes_per_second},
          {"gradient_bytes", ranks.reduction.gradients.count()},
          {"buckets", ranks.reduction.buckets},
          {"transfer_seconds", milliseconds(ranks.reduction.transfers) / 1000},
          {"exposed_seconds", milliseconds(ranks.reduction.exposed) / 1000},
          {"step_seconds", step},
          {"per_second", static_cast<double>(ranks.ranks.count * point.size) / step},
          {"efficiency", ranks.reduction.efficiency()},
          {"efficiency_resident", ranks.resident.efficiency()}};
}

void print_ranks(const RanksAnswer& ranks, const Point& point) {
  const fit::Reduction& found = ranks.reduction;
  std::printf("%u ranks at the last one: %.1f a second, %.1f %% of %u times one rank (%.1f %% if all were resident)\n",
              ranks.ranks.count, static_cast<double>(ranks.ranks.count * point.size) / milliseconds(found.step) * 1000,
              found.efficiency() * 100, ranks.ranks.count, ranks.resident.efficiency() * 100);
  std::printf("  gradients of %s in %u buckets, averaged in %.1f ms, of which %.1f ms are not hidden; held once more\n",
              base::format_bytes(found.gradients).c_str(), found.buckets, milliseconds(found.transfers),
              milliseconds(found.exposed));
}

/// JSON has no infinity.
Json finite(double value) { return std::isinf(value) ? Json(nullptr) : Json(value); }

Json to_json(const std::optional<fit::NoiseScale>& noise) {
  if (!noise) return nullptr;
  return {{"samples", finite(noise->samples)},
          {"low", finite(noise->low)},
          {"high", finite(noise->high)},
          {"steps", noise->steps}};
}

Json to_json(const std::optional<fit::LearningRate>& rate) {
  if (!rate) return nullptr;
  return {{"samples", rate->samples},
          {"linear", rate->linear},
          {"square_root", rate->square_root},
          {"by_noise", rate->by_noise ? Json(*rate->by_noise) : Json(nullptr)}};
}

void print_noise(const fit::NoiseScale& noise) {
  const auto text = [](double samples) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.3g", samples);
    return std::string(digits);
  };
  if (std::isinf(noise.samples))
    std::printf("gradient noise scale: above %s samples, as the noise hides the gradient in %llu steps; give more\n",
                text(noise.low).c_str(), static_cast<unsigned long long>(noise.steps));
  else
    std::printf("gradient noise scale: %s samples (%s to %s), from %llu steps; it grows while the program trains\n",
                text(noise.samples).c_str(), text(noise.low).c_str(),
                std::isinf(noise.high) ? "any" : text(noise.high).c_str(),
                static_cast<unsigned long long>(noise.steps));
}

void print_measured(const std::vector<MeasuredSize>& all) {
  std::printf("measured under plans, of which the quickest is the answer:");
  for (const MeasuredSize& one : all)
    std::printf("%s %llu: %.1f", &one == &all.front() ? "" : ",", static_cast<unsigned long long>(one.size),
                one.per_second);
  std::printf(" a second\n");
}

void print_learning_rate(const fit::LearningRate& rate) {
  std::printf("learning rate for %llu samples a step: %.4g by the linear rule, with a warm-up; %.4g by the square root",
              static_cast<unsigned long long>(rate.samples), rate.linear, rate.square_root);
  if (rate.by_noise) std::printf("; %.4g by the noise scale", *rate.by_noise);
  std::printf("\n");
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%g %%", share * 100);
  return text;
}

}  // namespace

void print_fit_json(const FitAnswer& answer) {
  Json within = Json::array();
  for (std::size_t i = 0; i < answer.found.within.size(); ++i)
    within.push_back({{"overhead", answer.question.overheads[i]}, {"largest", to_json(answer.found.within[i])}});
  Json measured = Json::array();
  for (const MeasuredSize& one : answer.measured)
    measured.push_back({{"size", one.size}, {"per_second", one.per_second}});
  Json tried = Json::array();
  for (const Point& point : answer.found.tried) tried.push_back(to_json(point));
  const Json all = {{"machine", answer.machine},
                    {"varied", answer.name},
                    {"budget_bytes", answer.question.budget.count()},
                    {"timed", answer.is_timed},
                    {"traced_sizes", answer.traced},
                    {"plain", answer.plain ? Json(answer.plain->size) : Json(nullptr)},
                    {"plain_reserved_bytes", answer.plain ? Json(answer.plain->reserved.count()) : Json(nullptr)},
                    {"plain_confirmed", answer.plain ? Json(answer.plain->is_confirmed) : Json(nullptr)},
                    {"unpaged", to_json(answer.found.unpaged)},
                    {"within", within},
                    {"largest", to_json(answer.found.largest)},
                    {"quickest_within", answer.question.within},
                    {"quickest", to_json(answer.found.quickest)},
                    {"measured", measured},
                    {"data_parallel", answer.ranks ? to_json(*answer.ranks, *answer.found.quickest) : Json(nullptr)},
                    {"gradient_noise_scale", to_json(answer.noise)},
                    {"learning_rate", to_json(answer.learning_rate)},
                    {"as_scaled", answer.is_as_scaled},
                    {"checked", answer.checked},
                    {"tried", tried}};
  print_json(all);
}

void print_fit(const FitAnswer& answer) {
  std::printf("%s on %s, %s for tensors (simulated, by %s)\n", answer.name.c_str(), answer.machine.c_str(),
              base::format_bytes(answer.question.budget).c_str(),
              answer.is_timed ? "the times of real steps and the machine's link" : "the machine's roofline and link");
  std::printf("  %-22s%10s%12s%12s%11s%12s%14s\n", "largest", answer.name.c_str(), "a second", "step", "overhead",
              "need", "on the host");
  if (answer.plain && answer.plain->size == 0)
    std::printf("  %-22s%10s\n", "plain PyTorch", "none");
  else if (answer.plain && answer.card)
    std::printf("  %-22s%10llu   its allocator reserves %s%s; %s for CUDA itself; the card has %s\n", "plain PyTorch",
                static_cast<unsigned long long>(answer.plain->size), base::format_bytes(answer.plain->reserved).c_str(),
                answer.plain->is_confirmed ? "" : " (by a model: no dry run there)",
                base::format_bytes(fit::kContext).c_str(), base::format_bytes(*answer.card).c_str());
  print_point("without paging", answer.found.unpaged, "none");
  for (std::size_t i = 0; i < answer.found.within.size(); ++i)
    print_point("at " + percent(answer.question.overheads[i]), answer.found.within[i], "none");
  print_point("at any cost", answer.found.largest, "none: the budget is below the floor");
  print_point("most within " + percent(answer.question.within), answer.found.quickest, "none");
  if (!answer.measured.empty()) print_measured(answer.measured);
  if (answer.ranks) print_ranks(*answer.ranks, *answer.found.quickest);
  if (answer.noise) print_noise(*answer.noise);
  if (answer.learning_rate) print_learning_rate(*answer.learning_rate);
  if (!answer.checked.empty()) std::printf("%s\n", answer.checked.c_str());
}

}  // namespace tensorpager::cli
