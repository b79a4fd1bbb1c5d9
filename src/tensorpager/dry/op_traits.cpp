#include "tensorpager/dry/op_traits.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "tensorpager/base/address_table.h"

namespace tensorpager::dry {
namespace {

using c10::DispatchKey;

/// Change what a tensor is or read single values: cheap, and a program goes on with the result.
constexpr std::array kAlwaysRun = {
    std::string_view("aten::resize_"),       std::string_view("aten::resize_as_"),
    std::string_view("aten::set_"),          std::string_view("aten::_local_scalar_dense"),
    std::string_view("aten::record_stream"), std::string_view("aten::_pin_memory"),
    std::string_view("aten::is_pinned"),     std::string_view("aten::empty_like"),
    std::string_view("aten::is_set_to"),     std::string_view("aten::_cudnn_rnn_flatten_weight"),
    std::string_view("aten::_copy_from"),    std::string_view("aten::_cudnn_init_dropout_state"),
    std::string_view("aten::_assert_async"),
};

/// Torch counts them among composites, but they call kernels past the dispatcher.
constexpr std::array kKernels = {
    std::string_view("aten::convolution"),    std::string_view("aten::convolution_backward"),
    std::string_view("aten::clone"),          std::string_view("aten::_to_copy"),
    std::string_view("aten::repeat"),         std::string_view("aten::constant_pad_nd"),
    std::string_view("aten::slice_backward"), std::string_view("aten::select_backward"),
};

/// Wait for other processes.
constexpr std::array kCollectives = {std::string_view("c10d::"), std::string_view("_c10d_functional"),
                                     std::string_view("c10d_functional::")};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool may_hold_tensor(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::AnyType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return may_hold_tensor(type->containedTypes()[0]);
    default:
      return false;
  }
}

bool is_written(const c10::Argument& argument) {
  const auto* alias = argument.alias_info();
  if (alias == nullptr) return false;
  const auto& inner = alias->containedTypes();  // Tensor(a!)[]
  return alias->isWrite() || std::ranges::any_of(inner, [](const c10::AliasInfo& one) { return one.isWrite(); });
}

bool is_view(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() && std::ranges::none_of(schema.arguments(), is_written) &&
         std::ranges::all_of(schema.returns(), [](const c10::Argument& one) { return one.alias_info() != nullptr; });
}

/// Whether it has no kernel of its own on the backend: then the ops that it calls come to the skipper.
bool is_made_of_ops(const c10::OperatorHandle& op, DispatchKey backend) {
  if (backend == DispatchKey::CPU && contains(kKernels, op.schema().name())) return false;
  if (op.hasKernelForDispatchKey(backend)) return false;
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.schema().name().starts_with("aten::_foreach_");
}

/// An op of a library is skipped if its shapes can be asked for. What Python implements calls ops, and is recorded as
/// those.
bool is_run_whole(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  if (name.starts_with("aten::")) return false;
  if (std::ranges::any_of(kCollectives, [&](std::string_view one) { return name.starts_with(one); })) return true;
  return !op.hasKernelForDispatchKey(DispatchKey::Meta) || op.dumpState().find(".py:") != std::string::npos;
}

bool takes_generator(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
    return argument.type()->str().find("Generator") != std::string::npos;
  });
}

Work work_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("attention")) return Work::kAttention;
  if (has("rnn") || has("lstm") || has("gru")) return Work::kRecurrent;
  if (has("conv")) return Work::kConvolution;
  if (has("linalg") || has("cholesky") || has("cdist") || has("triangular")) return Work::kFactorization;
  for (const std::string_view one : {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear",
                                     "aten::_addmm_activation", "aten::mv", "aten::addmv", "aten::addbmm"})
    if (name == one) return Work::kMatrices;
  return Work::kBytes;
}

/// The argument that result `at` is, by the letter of its alias.
std::int32_t returned_argument(const c10::FunctionSchema& schema, const c10::Argument& result) {
  if (result.alias_info() == nullptr || !result.alias_info()->isWrite()) return OpTraits::kNew;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && alias->beforeSets() == result.alias_info()->beforeSets())
      return static_cast<std::int32_t>(i);
  }
  return OpTraits::kNew;
}

std::unique_ptr<const OpTraits> make_traits(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto made = std::make_unique<OpTraits>();
  OpTraits& traits = *made;
  traits.schema = &schema;
  traits.name = toString(op.operator_name());
  traits.arguments = static_cast<std::uint32_t>(schema.arguments().size());
  traits.returns = static_cast<std::uint32_t>(schema.returns().size());
  bool writes = false, resizes = false;
  for (std::uint32_t i = 0; i < traits.arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    traits.has_value_in_signature.push_back(argument.type()->str().find("Scalar") == std::string::npos);
    if (!may_hold_tensor(argument.type())) continue;
    const bool written = is_written(argument);
    traits.tensor_arguments.push_back({i, written, argument.is_out()});
    writes |= written;
    resizes |= argument.is_out();
  }
  bool all_returned = true, has_tensors = false;
  for (const c10::Argument& result : schema.returns()) {
    traits.returned.push_back(returned_argument(schema, result));
    all_returned &= traits.returned.back() != OpTraits::kNew;
    has_tensors |= may_hold_tensor(result.type());
  }
  const bool runs =
      is_view(schema) || op.hasTag(at::Tag::inplace_view) || contains(kAlwaysRun, schema.name()) || is_run_whole(op);
  traits.through_on_cpu = runs || is_made_of_ops(op, DispatchKey::CPU);
  traits.through_on_cuda = runs || is_made_of_ops(op, DispatchKey::CUDA);
  traits.in_place = writes && !resizes && all_returned;
  traits.work = work_of(schema.name());
  traits.draws =
      (op.hasTag(at::Tag::nondeterministic_seeded) || takes_generator(schema)) && (traits.work == Work::kBytes);
  traits.depends_on_values = op.hasTag(at::Tag::dynamic_output_shape);
  traits.answers = !schema.returns().empty() && !has_tensors;
  return made;
}

constinit base::AddressTable<OpTraits, &OpTraits::schema> g_table;

[[gnu::noinline]] const OpTraits& insert(const c10::OperatorHandle& op) {
  const OpTraits* entry = g_table.insert(make_traits(op));
  TORCH_CHECK(entry != nullptr, "Tensorpager: more than ", decltype(g_table)::kSlots, " operators");
  return *entry;
}

}  // namespace

const OpTraits& traits_of(const c10::OperatorHandle& op) {
  const OpTraits* known = g_table.find(&op.schema());
  return known != nullptr ? *known : insert(op);
}

void for_each_op(const std::function<void(const OpTraits&)>& visit) { g_table.for_each(visit); }

}  // namespace tensorpager::dry
