#include "tensorpager/intercept/op_info.h"

#include <algorithm>
#include <memory>

#include "tensorpager/base/address_table.h"
#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/list_ops.h"

namespace tensorpager::intercept {
namespace {

using pager::Access;

bool may_hold_tensor(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::StorageType:
    case c10::TypeKind::AnyType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::TupleType:
      for (const auto& inner : type->containedTypes())
        if (may_hold_tensor(inner)) return true;
      return false;
    default:
      return false;
  }
}

/// Note [Unannounced writes]: arguments that an op writes though its schema does not say so.
struct Unannounced {
  std::string_view op, argument;
};
constexpr Unannounced kUnannounced[] = {
    {"aten::mkldnn_rnn_layer_backward", "workspace"},
    {"aten::_cudnn_rnn", "dropout_state"},
    {"aten::_cudnn_rnn_backward", "dropout_state"},
    {"aten::_cudnn_rnn_backward", "reserve"},
    {"aten::native_batch_norm", "running_mean"},
    {"aten::native_batch_norm", "running_var"},
    {"aten::cudnn_batch_norm", "running_mean"},
    {"aten::cudnn_batch_norm", "running_var"},
    {"aten::batch_norm_gather_stats", "running_mean"},
    {"aten::batch_norm_gather_stats", "running_var"},
    {"aten::batch_norm_gather_stats_with_counts", "running_mean"},
    {"aten::batch_norm_gather_stats_with_counts", "running_var"},
    {"aten::batch_norm_update_stats", "running_mean"},
    {"aten::batch_norm_update_stats", "running_var"},
};

/// Kernels registered from Python carry the file they came from; torch has no flag for it. Aten's own are never written
/// in Python.
bool is_python_op(const c10::OperatorHandle& op) {
  if (op.schema().name().rfind("aten::", 0) == 0) return false;
  return op.dumpState().find(".py:") != std::string::npos;
}

/// Whether the op is random: by torch's own tag, or because it takes a generator.
bool is_random(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  return op.hasTag(at::Tag::nondeterministic_seeded) ||
         std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
           return argument.type()->str().find("Generator") != std::string::npos;
         });
}

/// aten::_foreach_add_, aten::_fused_adam_, aten::_amp_foreach_...
bool works_on_lists(const std::string& name) {
  return name.find("::_foreach_") != std::string::npos || name.find("::_fused_") != std::string::npos ||
         name.find("::_amp_foreach_") != std::string::npos;
}

/// Ops that do not read what they write: fills, copies, draws, and results that the caller hands in.
bool overwrites(const c10::FunctionSchema& schema) {
  static constexpr std::string_view kNames[] = {
      "aten::copy_",   "aten::fill_",       "aten::zero_",      "aten::normal_",        "aten::uniform_",
      "aten::random_", "aten::bernoulli_",  "aten::geometric_", "aten::exponential_",   "aten::cauchy_",
      "aten::resize_", "aten::log_normal_", "aten::set_",       "aten::_foreach_copy_", "aten::_foreach_zero_"};
  if (std::find(std::begin(kNames), std::end(kNames), schema.name()) != std::end(kNames)) return true;
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) { return argument.is_out(); });
}

std::unique_ptr<const OpInfo> make_info(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto made = std::make_unique<OpInfo>();
  OpInfo& info = *made;
  info.schema = &schema;
  info.op = op;
  info.name = toString(op.operator_name());
  info.name_hash = base::name_hash(info.name);
  info.arguments = static_cast<std::uint32_t>(schema.arguments().size());
  info.returns = static_cast<std::uint32_t>(schema.returns().size());
  for (std::uint32_t i = 0; i < info.arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!may_hold_tensor(argument.type())) continue;
    const bool writes = is_written_announced(schema, argument) || is_written_unannounced(schema, argument);
    info.tensor_arguments.push_back({i, writes ? Access::kWrite : Access::kRead});
  }
  for (const auto& result : schema.returns()) info.returns_tensors |= may_hold_tensor(result.type());
  info.random = is_random(op);
  info.list = works_on_lists(schema.name());
  info.reads_what_it_writes = !overwrites(schema);
  info.arithmetic = roofline::arithmetic_of(schema.name());
  info.multiplies = roofline::calls_cublas(schema.name());
  info.hides_shortages = schema.name().find("conv") != std::string::npos;  // cuDNN tries its next algorithm
  info.collective = is_collective(schema);
  info.list_op = is_list_op(schema);
  // A collective has kernels in Python for fake tensors, and keeps what it allocates in C++.
  if (!info.collective && is_python_op(op)) info.temporaries = pager::Temporaries::kLetGo;
  return made;
}

constinit base::AddressTable<OpInfo, &OpInfo::schema> g_table;

[[gnu::noinline]] const OpInfo& insert(const c10::OperatorHandle& op) {
  const OpInfo* entry = g_table.insert(make_info(op));
  TORCH_CHECK(entry != nullptr, "Tensorpager: more than ", decltype(g_table)::kSlots, " operators");
  return *entry;
}

}  // namespace

bool is_written_announced(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  const c10::AliasInfo* const alias = argument.alias_info();
  if (alias == nullptr || schema.name() == "aten::record_stream") return false;
  const auto& inner = alias->containedTypes();  // Tensor(a!)[]
  return alias->isWrite() || std::ranges::any_of(inner, [](const c10::AliasInfo& one) { return one.isWrite(); });
}

bool is_written_unannounced(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return std::ranges::any_of(
      kUnannounced, [&](const Unannounced& one) { return one.op == schema.name() && one.argument == argument.name(); });
}

const OpInfo& op_info(const c10::OperatorHandle& op) {
  const OpInfo* known = g_table.find(&op.schema());
  return known != nullptr ? *known : insert(op);
}

}  // namespace tensorpager::intercept
