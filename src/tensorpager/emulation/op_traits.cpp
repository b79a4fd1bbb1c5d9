#include "tensorpager/emulation/op_traits.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tensorpager/emulation/torch_internals.h"

namespace tensorpager::emulation {
namespace {

int argument_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const c10::AliasInfo* const is = result.alias_info();
  if (!is) return OpTraits::kNone;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* const argument = schema.arguments()[i].alias_info();
    if (argument && argument->beforeSets() == is->beforeSets()) return static_cast<int>(i);
  }
  return OpTraits::kNone;
}

bool is_tensors(const c10::Argument& result) {
  const std::string type = result.type()->str();
  return type == "Tensor" || type == "Tensor[]";
}

OpTraits work_out(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpTraits traits{.name = toString(op.operator_name())};
  const std::string plain_name = traits.name.substr(traits.name.find("::") + 2);
  traits.family = family_of(plain_name);
  bool returns_values = false;
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const std::string type = argument.type()->str();
    traits.writes.push_back(argument.alias_info() && argument.alias_info()->isWrite());
    traits.is_out.push_back(argument.is_out());
    traits.takes_out |= argument.is_out();
    traits.takes_lists |= type == "Tensor[]";
    tensors += type.starts_with("Tensor");
    if (type.find("Generator") != std::string::npos) traits.generator = static_cast<int>(i);
  }
  for (const c10::Argument& result : schema.returns()) {
    traits.result_is.push_back(argument_of(schema, result));
    if (traits.result_is.back() != OpTraits::kNone) continue;
    traits.returns_new |= is_tensors(result);
    returns_values |= !is_tensors(result);
  }
  traits.is_checked = tensors > 1 && !traits.takes_lists;
  traits.uses_cublas = roofline::calls_cublas(op.schema().name());
  traits.may_add_bias = may_add_bias(plain_name);
  traits.arithmetic = roofline::arithmetic_of(op.schema().name());
  traits.mixes_devices = mixes_devices(plain_name);
  if (has_wrong_shapes(plain_name)) {
    traits.course = Course::kWhenItRan;
    traits.reason = "torch's shape function for it is wrong";
  } else if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    traits.course = Course::kGeneric;
  } else if (returns_values || op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
    traits.course = Course::kWhenItRan;
    traits.reason = "its results' shapes or values depend on data";
  }
  return traits;
}

class TraitsOfAll {
 public:
  const OpTraits& find(const c10::OperatorHandle& op) {
    const std::lock_guard lock(mutex_);
    auto& traits = traits_[&op.schema()];
    if (!traits) traits = std::make_unique<OpTraits>(work_out(op));
    return *traits;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpTraits>> traits_;
};

}  // namespace

const OpTraits& traits_of(const c10::OperatorHandle& op) {
  static auto* const all = new TraitsOfAll;  // queued kernels name ops until the process ends
  thread_local std::unordered_map<const c10::FunctionSchema*, const OpTraits*> known;
  const OpTraits*& traits = known[&op.schema()];
  if (!traits) traits = &all->find(op);
  return *traits;
}

bool is_view(const c10::FunctionSchema& schema) {
  const auto aliases = [](const c10::Argument& argument) { return argument.alias_info() != nullptr; };
  const auto writes = [&](const c10::Argument& argument) {
    return aliases(argument) && argument.alias_info()->isWrite();
  };
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), aliases) &&
         std::none_of(schema.arguments().begin(), schema.arguments().end(), writes) &&
         std::any_of(schema.returns().begin(), schema.returns().end(), aliases);
}

}  // namespace tensorpager::emulation
