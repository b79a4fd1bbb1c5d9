#include "tensorpager/intercept/python_dispatch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/key.h"

namespace tensorpager::intercept {
namespace {

using c10::TensorImpl;
using Object = PyObject*;

/// Takes the exclusion of our key back for a scope.
class Visible {
 public:
  Visible() : hidden_(g_target.active && c10::impl::tls_is_dispatch_key_excluded(kKey)) {
    if (hidden_) c10::impl::tls_set_dispatch_key_excluded(kKey, false);
  }
  ~Visible() {
    if (hidden_) c10::impl::tls_set_dispatch_key_excluded(kKey, true);
  }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

 private:
  bool hidden_;
};

/// torch's own interface to Python, which it calls for everything; only `dispatch` does more.
class Interpreter final : public c10::impl::PyInterpreterVTable {
 public:
  explicit Interpreter(const PyInterpreterVTable& own) : own_(own) {}

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    const Visible our_key;
    own_.dispatch(op, stack);
  }

  std::string name() const override { return own_.name(); }
  void incref(Object object) const override { own_.incref(object); }
  void decref(Object object) const override { own_.decref(object); }
  bool try_incref(const c10::impl::PyObjectSlot& slot) const override { return own_.try_incref(slot); }
  std::size_t refcnt(Object object) const override { return own_.refcnt(object); }
  c10::intrusive_ptr<TensorImpl> detach(const TensorImpl* self) const override { return own_.detach(self); }
  void reportErrorCallback(Object callback, c10::DispatchKey key) const override {
    own_.reportErrorCallback(callback, key);
  }
  void python_op_registration_trampoline(const c10::OperatorHandle& op, c10::DispatchKey key, c10::DispatchKeySet keys,
                                         torch::jit::Stack* stack, bool with_keys, bool with_op) const override {
    own_.python_op_registration_trampoline(op, key, keys, stack, with_keys, with_op);
  }
  void throw_abstract_impl_not_imported_error(std::string op, const char* module, const char* context) const override {
    own_.throw_abstract_impl_not_imported_error(std::move(op), module, context);
  }
  void python_dispatcher(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) const override {
    own_.python_dispatcher(op, keys, stack);
  }
  bool is_contiguous(const TensorImpl* self, at::MemoryFormat format) const override {
    return own_.is_contiguous(self, format);
  }
  c10::SymBool sym_is_contiguous(const TensorImpl* self, at::MemoryFormat format) const override {
    return own_.sym_is_contiguous(self, format);
  }
  bool is_strides_like(const TensorImpl* self, at::MemoryFormat format) const override {
    return own_.is_strides_like(self, format);
  }
  bool is_non_overlapping_and_dense(const TensorImpl* self) const override {
    return own_.is_non_overlapping_and_dense(self);
  }
  c10::Device device(const TensorImpl* self) const override { return own_.device(self); }
  std::int64_t dim(const TensorImpl* self) const override { return own_.dim(self); }
  c10::IntArrayRef strides(const TensorImpl* self) const override { return own_.strides(self); }
  c10::IntArrayRef sizes(const TensorImpl* self) const override { return own_.sizes(self); }
  c10::SymIntArrayRef sym_sizes(const TensorImpl* self) const override { return own_.sym_sizes(self); }
  c10::Layout layout(const TensorImpl* self) const override { return own_.layout(self); }
  std::int64_t numel(const TensorImpl* self) const override { return own_.numel(self); }
  c10::SymInt sym_numel(const TensorImpl* self) const override { return own_.sym_numel(self); }
  c10::SymIntArrayRef sym_strides(const TensorImpl* self) const override { return own_.sym_strides(self); }
  c10::SymInt sym_storage_offset(const TensorImpl* self) const override { return own_.sym_storage_offset(self); }
  void trace_gpu_event_creation(c10::DeviceType device, std::uintptr_t event) const override {
    own_.trace_gpu_event_creation(device, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType device, std::uintptr_t event) const override {
    own_.trace_gpu_event_deletion(device, event);
  }
  void trace_gpu_event_record(c10::DeviceType device, std::uintptr_t event, std::uintptr_t stream) const override {
    own_.trace_gpu_event_record(device, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType device, std::uintptr_t event, std::uintptr_t stream) const override {
    own_.trace_gpu_event_wait(device, event, stream);
  }
  void trace_gpu_memory_allocation(c10::DeviceType device, std::uintptr_t data) const override {
    own_.trace_gpu_memory_allocation(device, data);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType device, std::uintptr_t data) const override {
    own_.trace_gpu_memory_deallocation(device, data);
  }
  void trace_gpu_stream_creation(c10::DeviceType device, std::uintptr_t stream) const override {
    own_.trace_gpu_stream_creation(device, stream);
  }
  void trace_gpu_device_synchronization(c10::DeviceType device) const override {
    own_.trace_gpu_device_synchronization(device);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType device, std::uintptr_t stream) const override {
    own_.trace_gpu_stream_synchronization(device, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType device, std::uintptr_t event) const override {
    own_.trace_gpu_event_synchronization(device, event);
  }
  void reset_backward_hooks(const TensorImpl* self) const override { own_.reset_backward_hooks(self); }

 private:
  const PyInterpreterVTable& own_;
};

}  // namespace

void see_ops_in_python_dispatch() {
  c10::impl::PyInterpreter* interpreter = c10::impl::getGlobalPyInterpreter();
  interpreter->vtable_ = new Interpreter(**interpreter);  // leaked: tensors ask it until the process ends
}

}  // namespace tensorpager::intercept
