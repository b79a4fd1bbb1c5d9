#include <ATen/core/TensorBase.h>

#include <vector>

#include "tensorpager/api/tensorpager.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/intercept/frame.h"
#include "tensorpager/session/session.h"

namespace tensorpager {

struct Guard::Held {
  explicit Held(const at::TensorBase& guarded) : tensor(guarded) {}
  ~Held() {
    for (pager::Block* block : blocks) session::Session::find()->pager().outside().unpin_export(*block);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  at::TensorBase tensor;
  std::vector<pager::Block*> blocks;  // several if the tensor is sparse
};

Guard::Guard(const at::TensorBase& tensor) : held_(std::make_unique<Held>(tensor)) {
  session::Session* session = session::Session::find();
  if (session == nullptr) return;
  const auto pin = [&](pager::Block& block) {
    held_->blocks.reserve(held_->blocks.size() + 1);  // before the pin, which would be lost if push_back failed
    session->pager().outside().pin_export(block);
    held_->blocks.push_back(&block);
  };
  try {
    intercept::g_target.finder().in_tensor(tensor, pin);
  } catch (const base::OverBudget& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: a guard: ", error.what());
  } catch (const base::IoError& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: a guard: ", error.what());
  }
}

Guard::~Guard() = default;
Guard::Guard(Guard&&) noexcept = default;
Guard& Guard::operator=(Guard&&) noexcept = default;

}  // namespace tensorpager
