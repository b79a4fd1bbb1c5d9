#include "tensorpager/replay/op_rules.h"

#include <algorithm>
#include <memory>

#include "tensorpager/base/address_table.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/replay/stand_in.h"

namespace tensorpager::replay {
namespace {

using c10::DispatchKey;

bool may_hold_tensor(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return may_hold_tensor(type->containedTypes()[0]);
    default:
      return false;
  }
}

bool is_a_librarys(const c10::OperatorHandle& op) { return !op.schema().name().starts_with("aten::"); }

bool works_on_lists(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return name.find("::_foreach_") != std::string::npos || name.find("::_fused_") != std::string::npos ||
         name.find("::_amp_") != std::string::npos;
}

bool returns_no_tensor(const c10::OperatorHandle& op) {
  return std::ranges::none_of(op.schema().returns(),
                              [](const c10::Argument& result) { return may_hold_tensor(result.type()); });
}

bool is_view(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const auto is_written = [&](const c10::Argument& one) { return intercept::is_written_announced(schema, one); };
  return std::ranges::none_of(schema.arguments(), is_written) &&
         std::ranges::all_of(schema.returns(), [](const c10::Argument& one) { return one.alias_info() != nullptr; });
}

bool changes_a_tensors_sizes(const c10::OperatorHandle& op) { return op.hasTag(at::Tag::inplace_view); }

bool is_generator(const c10::Argument& argument) {
  return argument.type()->str().find("Generator") != std::string::npos;
}

bool takes_a_generator(const c10::OperatorHandle& op) {
  return std::ranges::any_of(op.schema().arguments(), is_generator);
}

bool is_tagged_random(const c10::OperatorHandle& op) { return op.hasTag(at::Tag::nondeterministic_seeded); }

bool has_kernel(const c10::OperatorHandle& op, DispatchKey device) {
  return op.hasKernelForDispatchKey(device) || op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

bool is_any(const c10::OperatorHandle& /*op*/) { return true; }

/// By name, without the overload: the exceptions from the table by schema, which come before it.
struct Named {
  std::string_view name;  // `aten::empty*`: all that begin so
  Purity purity;
  const char* reason;
};
constexpr Named kNamed[] = {
    {"aten::empty*", Purity::kNever, "writes nothing: what fills the memory later need not be an op"},
    {"aten::new_empty*", Purity::kNever, "writes nothing: what fills the memory later need not be an op"},
    {"aten::_efficientzerotensor", Purity::kNever, "its result has no memory"},
    {"aten::from_file", Purity::kNever, "the file may have changed"},
    {"aten::_ctc_loss", Purity::kNever, "leaves gaps in a result, which another op may copy"},
    {"aten::addr_", Purity::kNever, "a boxed call of it with a number accepts what an unboxed one refuses"},
    {"aten::linalg_lstsq", Purity::kNever, "LAPACK's last bits depend on where its memory lies: 5 of 60 calls differ"},
    {"aten::_unsafe_view", Purity::kNever, "its result is an alias, which its schema does not say"},
    {"aten::unsafe_split*", Purity::kNever, "its results are aliases, which its schema does not say"},
    {"aten::mkldnn_rnn_layer*", Purity::kNever, "its workspace differs from call to call, and is written unannounced"},
    {"aten::_cudnn_rnn*", Purity::kNever, "writes its reserve and its dropout state, which its schema does not say"},
    {"aten::put*", Purity::kNever, "adds from several threads in any order if it accumulates"},
    {"aten::index_put*", Purity::kNever, "adds from several threads in any order if it accumulates"},
    {"aten::_index_put_impl*", Purity::kNever, "adds from several threads in any order if it accumulates"},
    {"aten::_unsafe_index_put", Purity::kNever, "adds from several threads in any order if it accumulates"},
    {"aten::_unsafe_masked_index_put_accumulate", Purity::kNever, "adds from several threads in any order"},
    {"aten::resize*", Purity::kNever, "changes what a tensor is, and writes nothing"},
    {"aten::_resize*", Purity::kNever, "changes what a tensor is, and writes nothing"},
    {"aten::set_", Purity::kNever, "changes what a tensor is, and writes nothing"},
    {"aten::native_batch_norm", Purity::kScratch, "writes its running statistics, which its schema does not say"},
    {"aten::cudnn_batch_norm", Purity::kScratch, "writes its running statistics, which its schema does not say"},
    {"aten::_scaled_dot_product*", Purity::kNoDraw, "draws only if there is dropout"},
};

/// Ops whose kernels on CUDA add in any order (atomics), or choose among values in any order: names as in kNamed. Those
/// of embeddings, of max_pool2d and of attention are not in torch's documentation, and are here for safety.
constexpr std::string_view kUnorderedOnCuda[] = {
    "aten::convolution_backward",
    "aten::cudnn_convolution_transpose",
    "aten::embedding_dense_backward",
    "aten::_embedding_bag*",
    "aten::index_add*",
    "aten::index_copy*",
    "aten::index_reduce*",
    "aten::scatter*",
    "aten::cumsum*",
    "aten::histc*",
    "aten::bincount*",
    "aten::kthvalue*",
    "aten::median*",
    "aten::grid_sampler_2d_backward",
    "aten::grid_sampler_3d_backward",
    "aten::upsample_linear1d_backward",
    "aten::upsample_bilinear2d_backward",
    "aten::upsample_bicubic2d_backward",
    "aten::upsample_trilinear3d_backward",
    "aten::_upsample_bilinear2d_aa_backward",
    "aten::_upsample_bicubic2d_aa_backward",
    "aten::avg_pool3d_backward",
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward",
    "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward",
    "aten::adaptive_max_pool2d_backward",
    "aten::adaptive_max_pool3d_backward",
    "aten::fractional_max_pool2d_backward",
    "aten::fractional_max_pool3d_backward",
    "aten::max_unpool2d",
    "aten::max_unpool3d",
    "aten::reflection_pad1d_backward",
    "aten::reflection_pad2d_backward",
    "aten::reflection_pad3d_backward",
    "aten::replication_pad1d_backward",
    "aten::replication_pad2d_backward",
    "aten::replication_pad3d_backward",
    "aten::nll_loss2d*",
    "aten::_ctc_loss_backward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_backward",
    "aten::_cudnn_attention_backward",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward",
};

/// By schema; the first line that fits applies.
struct BySchema {
  bool (*fits)(const c10::OperatorHandle&);
  Purity purity;
  const char* reason;
};
constexpr BySchema kBySchema[] = {
    {&is_a_librarys, Purity::kNever, "a library's: nobody knows what it reads and writes"},
    {&works_on_lists, Purity::kNever, "works on lists of tensors, and is run in parts"},
    {&returns_no_tensor, Purity::kNever, "returns no tensor that could be rebuilt"},
    {&is_view, Purity::kNever, "makes a view, which has no bytes of its own"},
    {&changes_a_tensors_sizes, Purity::kNever, "changes what a tensor is, and writes nothing"},
    {&takes_a_generator, Purity::kDraws, "draws from a generator, whose state is kept"},
    {&is_tagged_random, Purity::kNever, "draws from a generator that nobody can hand it"},
    {&is_any, Purity::kPure, "torch's, and no line above knows otherwise"},
};

bool fits(std::string_view pattern, std::string_view name) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

struct Judgement {
  Purity purity;
  const char* reason;
};

/// By the kernels of a device.
Judgement judge(const c10::OperatorHandle& op, DispatchKey device) {
  const std::string& name = op.schema().name();
  if (device == DispatchKey::CUDA &&
      std::ranges::any_of(kUnorderedOnCuda, [&](std::string_view one) { return fits(one, name); }))
    return {Purity::kNever, "adds or chooses in any order on CUDA"};
  if (has_stand_in(name, device == DispatchKey::CUDA ? base::Device::kCuda : base::Device::kHost))
    return {Purity::kDraws, "draws from a generator, which an op that does the same can be handed"};
  const auto* const named = std::ranges::find_if(kNamed, [&](const Named& one) { return fits(one.name, name); });
  if (named != std::end(kNamed)) return {named->purity, named->reason};
  const auto* const line = std::ranges::find_if(kBySchema, [&](const BySchema& one) { return one.fits(op); });
  if (line->purity != Purity::kNever && !has_kernel(op, device))
    return {Purity::kNever, "made of other ops, which are replayed themselves"};
  return {line->purity, line->reason};
}

OpRule::OfDevice of_device(const c10::OperatorHandle& op, DispatchKey device, DispatchKey autocast) {
  const Judgement judgement = judge(op, device);
  return {.purity = judgement.purity,
          .reason = judgement.reason,
          .has_kernel = has_kernel(op, device),
          .has_autocast_kernel = op.hasKernelForDispatchKey(autocast)};
}

std::unique_ptr<const OpRule> make_rule(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto made = std::make_unique<OpRule>();
  OpRule& rule = *made;
  rule.schema = &schema;
  rule.name = toString(op.operator_name());
  rule.arguments = static_cast<std::uint32_t>(schema.arguments().size());
  rule.returns = static_cast<std::uint32_t>(schema.returns().size());
  rule.on_cpu = of_device(op, DispatchKey::CPU, DispatchKey::AutocastCPU);
  rule.on_cuda = of_device(op, DispatchKey::CUDA, DispatchKey::AutocastCUDA);
  const bool has_scratch = rule.on_cpu.purity == Purity::kScratch || rule.on_cuda.purity == Purity::kScratch;
  for (std::uint32_t i = 0; i < rule.arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    rule.tensors += may_hold_tensor(argument.type());
    if (intercept::is_written_announced(schema, argument)) rule.written.push_back(i);
    if (has_scratch && intercept::is_written_unannounced(schema, argument)) rule.scratch.push_back(i);
    if (argument.name() == "dropout_p") rule.dropout = i;
    if (is_generator(argument)) rule.generator = i;
  }
  for (const c10::Argument& result : schema.returns()) rule.returns_alias.push_back(result.alias_info() != nullptr);
  const intercept::OpInfo& info = intercept::op_info(op);
  rule.is_random = info.random;
  rule.is_filling = !info.reads_what_it_writes && rule.written == std::vector<std::uint32_t>{0};
  rule.is_torchs = !is_a_librarys(op);
  rule.has_own_autograd = !rule.is_torchs && (op.hasKernelForDispatchKey(DispatchKey::Autograd) ||
                                              op.hasKernelForDispatchKey(DispatchKey::AutogradCPU) ||
                                              op.hasKernelForDispatchKey(DispatchKey::AutogradCUDA));
  return made;
}

constinit base::AddressTable<OpRule, &OpRule::schema> g_table;

[[gnu::noinline]] const OpRule& insert(const c10::OperatorHandle& op) {
  const OpRule* entry = g_table.insert(make_rule(op));
  TORCH_CHECK(entry != nullptr, "Tensorpager: more than ", decltype(g_table)::kSlots, " operators");
  return *entry;
}

}  // namespace

bool OpRule::allows(c10::ArrayRef<c10::IValue> call, base::Device device) const {
  if (differed.load(std::memory_order_relaxed)) return false;
  if (is_trusted.load(std::memory_order_relaxed)) return true;
  return of_call(on(device).purity, call) != Purity::kNever;
}

bool OpRule::fills_in(c10::ArrayRef<c10::IValue> call) const {
  if (!is_filling || call.empty() || !call[0].isTensor() || !call[0].toTensor().defined()) return false;
  const auto storage_of = [](const at::Tensor& tensor) -> c10::StorageImpl* {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
  };
  const at::Tensor& filled = call[0].toTensor();
  const c10::StorageImpl* const storage = storage_of(filled);
  if (storage == nullptr || filled.nbytes() != storage->nbytes() || !filled.is_non_overlapping_and_dense())
    return false;
  return std::ranges::none_of(call.slice(1), [&](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && storage_of(value.toTensor()) == storage;
  });
}

Purity OpRule::of_call(Purity of, c10::ArrayRef<c10::IValue> call) const {
  if (of != Purity::kNoDraw) return of;
  const bool draws = dropout >= call.size() || !call[dropout].isDouble() || call[dropout].toDouble() != 0;
  return draws ? Purity::kNever : Purity::kPure;
}

const OpRule& op_rule(const c10::OperatorHandle& op) {
  const OpRule* known = g_table.find(&op.schema());
  return known != nullptr ? *known : insert(op);
}

base::Purity purity_of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> call, base::Device device) {
  const OpRule& rule = op_rule(op);
  if (rule.differed.load(std::memory_order_relaxed)) return base::Purity::kNever;
  switch (rule.of_call(rule.on(device).purity, call)) {
    case Purity::kPure:
    case Purity::kDraws:
      return rule.fills_in(call) ? base::Purity::kFills : base::Purity::kPure;
    case Purity::kScratch:
      return base::Purity::kScratch;
    case Purity::kNoDraw:
    case Purity::kNever:
      break;
  }
  return base::Purity::kNever;
}

void for_each_rule(const std::function<void(const OpRule&)>& visit) { g_table.for_each(visit); }

}  // namespace tensorpager::replay
