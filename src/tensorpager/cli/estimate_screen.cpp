#include "tensorpager/cli/estimate_screen.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tensorpager/cli/print_json.h"

namespace tensorpager::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<fit::Cost>& cost) {
  if (!cost) return nullptr;
  return {{"budget_bytes", cost->budget.count()},
          {"overhead", cost->overhead},
          {"page_out_bytes", cost->page_out.count()},
          {"page_in_bytes", cost->page_in.count()},
          {"host_bytes", cost->on_host.count()}};
}

std::string text_of(base::Bytes bytes) { return base::format_bytes(bytes); }

void print_part(const char* name, base::Bytes bytes) {
  if (bytes.count() > 0) std::printf("    %-18s%12s\n", name, text_of(bytes).c_str());
}

void print_cost(const char* name, const std::optional<fit::Cost>& cost, const std::string& otherwise) {
  if (!cost) {
    std::printf("  %-20s%12s\n", name, otherwise.c_str());
    return;
  }
  std::printf("  %-20s%12s   step %+.1f %%, %s out and %s in a step, %s on the host\n", name,
              text_of(cost->budget).c_str(), cost->overhead * 100, text_of(cost->page_out).c_str(),
              text_of(cost->page_in).c_str(), text_of(cost->on_host).c_str());
}

}  // namespace

void print_estimate_json(const std::string& card, const fit::Estimate& found) {
  const fit::Composition& parts = found.parts;
  const Json all = {{"card", card},
                    {"card_bytes", found.card.count()},
                    {"fits", found.fits()},
                    {"max_allocated_bytes", found.allocated.count()},
                    {"max_reserved_bytes", found.reserved.count()},
                    {"need_bytes", found.need.count()},
                    {"floor_bytes", found.floor.count()},
                    {"parameter_bytes", parts.parameters.count()},
                    {"gradient_bytes", parts.gradients.count()},
                    {"optimizer_state_bytes", parts.optimizer_state.count()},
                    {"activation_bytes", parts.activations.count()},
                    {"backward_bytes", parts.backward.count()},
                    {"temporary_bytes", parts.temporaries.count()},
                    {"workspace_bytes", parts.workspaces.count()},
                    {"other_bytes", parts.others.count()},
                    {"ops", found.ops},
                    {"compute_seconds", std::chrono::duration<double>(found.compute).count()},
                    {"free", to_json(found.free)},
                    {"half", to_json(found.half)},
                    {"whole_card", to_json(found.whole_card)},
                    {"asked", to_json(found.asked)}};
  print_json(all);
}

void print_estimate(const std::string& card, const fit::Estimate& found) {
  const fit::Composition& parts = found.parts;
  std::printf("plain PyTorch on %s (dry: torch's own CUDA code and allocator ran, kernels did not)\n", card.c_str());
  std::printf("  %-20s%12s\n", "allocated at most", text_of(found.allocated).c_str());
  std::printf("  %-20s%12s   of %s on the card, with some %s for CUDA itself: %s\n", "reserved at most",
              text_of(found.reserved).c_str(), text_of(found.card).c_str(), text_of(fit::kContext).c_str(),
              found.fits() ? "fits" : "DOES NOT FIT");
  std::printf("  %-20s%12s   at op %u of %zu, %s:\n", "a step's peak", text_of(found.need).c_str(), parts.op, found.ops,
              found.peak_op.c_str());
  print_part("parameters", parts.parameters);
  print_part("gradients", parts.gradients);
  print_part("optimizer state", parts.optimizer_state);
  print_part("activations", parts.activations);
  print_part("of the backward", parts.backward);
  print_part("temporary, small", parts.temporaries);
  print_part("workspaces, idle", parts.workspaces);
  print_part("inputs, buffers", parts.others);
  std::printf("  %-20s%9.1f ms   by the card's roofline, not measured\n", "a step's compute",
              std::chrono::duration<double, std::milli>(found.compute).count());
  std::printf("with less memory (simulated: planned paging over the card's link, and recomputation)\n");
  if (found.whole_card || !found.fits()) print_cost("the whole card", found.whole_card, "too small for any one op");
  print_cost("at next to no cost", found.free, "");
  print_cost("half of the peak", found.half, "too small for any one op");
  if (found.asked) print_cost("as asked", found.asked, "");
  std::printf("  %-20s%12s   what the largest op needs: no budget below it\n", "floor", text_of(found.floor).c_str());
}

}  // namespace tensorpager::cli
