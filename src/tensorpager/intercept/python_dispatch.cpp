#include "tensorpager/intercept/python_dispatch.h"

#include <c10/core/SymBool.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreterHooks.h>

#include "tensorpager/intercept/frame.h"
#include "tensorpager/intercept/key.h"

namespace tensorpager::intercept {
namespace {

class KeyIncluded {
 public:
  KeyIncluded() { c10::impl::tls_set_dispatch_key_excluded(kKey, false); }
  ~KeyIncluded() { c10::impl::tls_set_dispatch_key_excluded(kKey, true); }
  KeyIncluded(const KeyIncluded&) = delete;
  KeyIncluded& operator=(const KeyIncluded&) = delete;
};

/// torch's table of what C++ calls in Python, with a step around `dispatch`; all else is handed on.
class SeeingTable final : public c10::impl::PyInterpreterVTable {
 public:
  explicit SeeingTable(const PyInterpreterVTable& python) : python_(python) {}

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    if (g_target.calls == Calls::kPassThrough || !c10::impl::tls_is_dispatch_key_excluded(kKey)) {
      python_.dispatch(op, stack);
      return;
    }
    const KeyIncluded included;
    // What Python code makes is held by Python objects: R1 ends here.
    const Frame body(nullptr, pager::Temporaries::kLetGo);
    python_.dispatch(op, stack);
  }

  std::string name() const override { return python_.name(); }
  void incref(PyObject* object) const override { python_.incref(object); }
  void decref(PyObject* object) const override { python_.decref(object); }
  bool try_incref(const c10::impl::PyObjectSlot& slot) const override { return python_.try_incref(slot); }
  size_t refcnt(PyObject* object) const override { return python_.refcnt(object); }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    return python_.detach(self);
  }
  void reportErrorCallback(PyObject* callback, c10::DispatchKey key) const override {
    python_.reportErrorCallback(callback, key);
  }
  void python_op_registration_trampoline(const c10::OperatorHandle& op, c10::DispatchKey key, c10::DispatchKeySet keys,
                                         torch::jit::Stack* stack, bool with_keyset, bool with_op) const override {
    python_.python_op_registration_trampoline(op, key, keys, stack, with_keyset, with_op);
  }
  void throw_abstract_impl_not_imported_error(std::string opname, const char* pymodule,
                                              const char* context) const override {
    python_.throw_abstract_impl_not_imported_error(std::move(opname), pymodule, context);
  }
  void python_dispatcher(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) const override {
    python_.python_dispatcher(op, keys, stack);
  }

  bool is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python_.is_contiguous(self, format);
  }
  c10::SymBool sym_is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python_.sym_is_contiguous(self, format);
  }
  bool is_strides_like(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python_.is_strides_like(self, format);
  }
  bool is_non_overlapping_and_dense(const c10::TensorImpl* self) const override {
    return python_.is_non_overlapping_and_dense(self);
  }
  c10::Device device(const c10::TensorImpl* self) const override { return python_.device(self); }
  int64_t dim(const c10::TensorImpl* self) const override { return python_.dim(self); }
  c10::IntArrayRef strides(const c10::TensorImpl* self) const override { return python_.strides(self); }
  c10::IntArrayRef sizes(const c10::TensorImpl* self) const override { return python_.sizes(self); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl* self) const override { return python_.sym_sizes(self); }
  c10::Layout layout(const c10::TensorImpl* self) const override { return python_.layout(self); }
  int64_t numel(const c10::TensorImpl* self) const override { return python_.numel(self); }
  c10::SymInt sym_numel(const c10::TensorImpl* self) const override { return python_.sym_numel(self); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl* self) const override { return python_.sym_strides(self); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl* self) const override {
    return python_.sym_storage_offset(self);
  }

  void trace_gpu_event_creation(c10::DeviceType device, uintptr_t event) const override {
    python_.trace_gpu_event_creation(device, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType device, uintptr_t event) const override {
    python_.trace_gpu_event_deletion(device, event);
  }
  void trace_gpu_event_record(c10::DeviceType device, uintptr_t event, uintptr_t stream) const override {
    python_.trace_gpu_event_record(device, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType device, uintptr_t event, uintptr_t stream) const override {
    python_.trace_gpu_event_wait(device, event, stream);
  }
  void trace_gpu_memory_allocation(c10::DeviceType device, uintptr_t address) const override {
    python_.trace_gpu_memory_allocation(device, address);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType device, uintptr_t address) const override {
    python_.trace_gpu_memory_deallocation(device, address);
  }
  void trace_gpu_stream_creation(c10::DeviceType device, uintptr_t stream) const override {
    python_.trace_gpu_stream_creation(device, stream);
  }
  void trace_gpu_device_synchronization(c10::DeviceType device) const override {
    python_.trace_gpu_device_synchronization(device);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType device, uintptr_t stream) const override {
    python_.trace_gpu_stream_synchronization(device, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType device, uintptr_t event) const override {
    python_.trace_gpu_event_synchronization(device, event);
  }
  void reset_backward_hooks(const c10::TensorImpl* self) const override { python_.reset_backward_hooks(self); }

 private:
  const PyInterpreterVTable& python_;
};

}  // namespace

void see_python_dispatch() {
  if (c10::impl::PyInterpreterHooksRegistry()->Keys().empty()) return;  // a program without Python
  c10::impl::PyInterpreter* python = c10::impl::getGlobalPyInterpreter();
  python->vtable_ = new SeeingTable(**python);  // leaked: torch replaces the table once more when the process ends
}

}  // namespace tensorpager::intercept
