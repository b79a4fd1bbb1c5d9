#include "tensorpager/intercept/compiled_call.h"

#include <memory>

#include "tensorpager/base/op_signature.h"
#include "tensorpager/intercept/op_info.h"
#include "tensorpager/intercept/op_protocol.h"

namespace tensorpager::intercept {
namespace {

/// All kernels have one name, as theirs differ from compilation to compilation; plans tell them apart by their sizes.
const OpInfo& compiled_info() {
  static const OpInfo* const info = [] {
    auto made = std::make_unique<OpInfo>();
    made->name = "compiled";
    made->name_hash = base::name_hash(made->name);
    return made.release();  // never freed: recorders keep its name
  }();
  return *info;
}

class CompiledCall {
 public:
  CompiledCall(std::span<const StorageArgument> storages, c10::function_ref<void()> kernel)
      : storages_(storages), kernel_(kernel) {}

  pager::WorkingRoom* room() const { return nullptr; }  // it allocates nothing
  pager::Temporaries temporaries() const { return pager::Temporaries::kKeep; }
  static constexpr bool multiplies() { return false; }
  const OpInfo& info() const { return compiled_info(); }
  bool is_factory() const { return false; }
  c10::ArrayRef<c10::IValue> boxed_arguments() const { return {}; }

  template <typename Visit>
  void for_each_argument(Visit&& visit) const {
    for (const StorageArgument& argument : storages_) visit(*argument.storage, argument.access);
  }
  struct NoResults {};
  NoResults run() const {
    if (g_target.announces_writes()) [[unlikely]]
      for_each_argument([](c10::StorageImpl& storage, pager::Access access) {
        pager::Block* const block = access == pager::Access::kWrite ? g_target.finder().peek(storage) : nullptr;
        if (block != nullptr) g_target.announce_write(*block);
      });
    kernel_();
    return {};
  }
  template <typename Visit>
  void for_each_result(NoResults /*results*/, Visit&& /*visit*/) const {}

  std::string describe() const { return "a compiled kernel"; }

 private:
  std::span<const StorageArgument> storages_;
  c10::function_ref<void()> kernel_;
};

}  // namespace

void run_compiled(std::span<const StorageArgument> storages, c10::function_ref<void()> kernel) {
  if (g_target.calls == Calls::kPassThrough) return kernel();
  run_op(CompiledCall(storages, kernel));
}

}  // namespace tensorpager::intercept
