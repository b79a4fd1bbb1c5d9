#include "tensorpager/intercept/frame.h"

#include <sstream>

namespace tensorpager::intercept {

Target g_target;

std::optional<DeviceStorages::Found> find_of_device(const at::TensorBase& tensor) {
  if (!tensor.defined() || tensor.device().is_cpu() || !tensor.unsafeGetTensorImpl()->has_storage())
    return std::nullopt;
  return g_target.device->find(tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
}

std::string describe_call(const char* op, c10::ArrayRef<at::TensorBase> tensors) {
  constexpr std::size_t kMostTensors = 8;
  std::ostringstream text;
  text << op << '(';
  std::size_t shown = 0;
  for (const at::TensorBase& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (shown == kMostTensors) {
      text << ", ... " << tensors.size() << " tensors in all";
      break;
    }
    text << (shown++ > 0 ? ", " : "") << tensor.scalar_type() << tensor.sym_sizes();
  }
  text << ')';
  return text.str();
}

std::string describe_call(const char* op, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<at::TensorBase> tensors;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::TensorBase& tensor) { tensors.push_back(tensor); });
  return describe_call(op, tensors);
}

void throw_out_of_memory(const std::string& call, const std::string& shortage) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: ", call, ": ", shortage);
}

void throw_shortage(const char* shortage) {
  pager::note_shortage(shortage);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: ", shortage);
}

}  // namespace tensorpager::intercept
