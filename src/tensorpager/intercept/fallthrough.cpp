#include "tensorpager/intercept/fallthrough.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace tensorpager::intercept {
namespace {

/// Composites that read bytes themselves. Found by torch's op database with everything evicted before each call; the
/// last groups by reading.
constexpr std::array kDenied = {
    std::string_view("max_pool1d"),  // calls its kernel directly if there is no gradient
    std::string_view("ctc_loss.Tensor"),
    std::string_view("tensor_split.tensor_indices_or_sections"),
    std::string_view("choose_qparams_optimized"),
};
constexpr std::array kDeniedParts = {std::string_view("fbgemm_"), std::string_view("_pad_packed_")};

bool is_denied(std::string_view name) {
  return std::find(kDenied.begin(), kDenied.end(), name) != kDenied.end() ||
         std::any_of(kDeniedParts.begin(), kDeniedParts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

/// Every result is an alias of an argument, and nothing is written.
bool is_view(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const auto& returns = schema.returns();
  return !returns.empty() && std::none_of(arguments.begin(), arguments.end(), [](const c10::Argument& a) {
    return a.alias_info() != nullptr && a.alias_info()->isWrite();
  }) && std::all_of(returns.begin(), returns.end(), [](const c10::Argument& r) { return r.alias_info() != nullptr; });
}

/// Made of other ops only.
bool is_composite(const c10::OperatorHandle& op, c10::DispatchKey backend) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(backend) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
}

/// R6: on the CPU, unlike on CUDA, a foreach op has no kernel of its own, it calls an op for each tensor of its lists.
/// Seen one by one those need the room of one tensor; a frame around them would pin every list whole.
bool is_foreach(const c10::OperatorHandle& op, c10::DispatchKey backend) {
  return op.schema().name().rfind("aten::_foreach_", 0) == 0 && !op.hasKernelForDispatchKey(backend);
}

}  // namespace

std::size_t register_fallthroughs(torch::Library& aten, c10::DispatchKey backend) {
  constexpr std::string_view kNamespace = "aten::";
  auto& dispatcher = c10::Dispatcher::singleton();
  std::size_t count = 0;
  for (const c10::OperatorName& op_name : dispatcher.getAllOpNames()) {
    if (op_name.name.rfind(kNamespace, 0) != 0) continue;
    const auto op = dispatcher.findSchema(op_name);
    if (!op || !(is_view(op->schema()) || is_composite(*op, backend) || is_foreach(*op, backend))) continue;
    std::string name = op_name.name.substr(kNamespace.size());
    if (!op_name.overload_name.empty()) name += "." + op_name.overload_name;
    if (is_denied(name)) continue;
    aten.impl(name.c_str(), torch::CppFunction::makeFallthrough());
    ++count;
  }
  return count;
}

}  // namespace tensorpager::intercept
