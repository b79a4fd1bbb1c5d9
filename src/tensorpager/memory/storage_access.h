// What a torch storage does not offer: its data pointer set while owner and deleter stay, and the mark that makes raw
// access raise set and cleared. Reached through explicit instantiation, which the language exempts from access checks;
// member names are the same from torch 2.11 to 2.15, and another layout would not compile.
#pragma once

#include <c10/core/StorageImpl.h>

#include <atomic>

namespace tensorpager::memory {
namespace detail {

template <typename Tag, typename Tag::Type member>
struct Expose {
  friend typename Tag::Type get(Tag) { return member; }
};

struct VoidPtrOfDataPtr {
  using Type = c10::detail::UniqueVoidPtr c10::DataPtr::*;
  friend Type get(VoidPtrOfDataPtr);
};
struct DataOfVoidPtr {
  using Type = void* c10::detail::UniqueVoidPtr::*;
  friend Type get(DataOfVoidPtr);
};
struct ThrowFlag {
  using Type = bool c10::StorageImpl::*;
  friend Type get(ThrowFlag);
};
struct CheckFlag {
  using Type = bool c10::StorageImpl::*;
  friend Type get(CheckFlag);
};
template struct Expose<VoidPtrOfDataPtr, &c10::DataPtr::ptr_>;
template struct Expose<DataOfVoidPtr, &c10::detail::UniqueVoidPtr::data_>;
template struct Expose<ThrowFlag, &c10::StorageImpl::throw_on_immutable_data_ptr_>;
template struct Expose<CheckFlag, &c10::StorageImpl::has_mutable_data_ptr_check_>;

}  // namespace detail

/// One store: a thread that reads meanwhile sees the old address or the new one.
inline void set_data_pointer(c10::StorageImpl& storage, void* data) {
  void*& slot = (storage._mutable_data_ptr_no_checks().*get(detail::VoidPtrOfDataPtr{})).*get(detail::DataOfVoidPtr{});
  std::atomic_ref<void*>(slot).store(data, std::memory_order_release);
}

/// From now on raw access raises RuntimeError with this text.
inline void mark(c10::StorageImpl& storage, const char* text) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(text);
}

inline void clear_mark(c10::StorageImpl& storage) {
  storage.*get(detail::ThrowFlag{}) = false;
  storage.*get(detail::CheckFlag{}) = false;  // our storages had no other reason to check
}

}  // namespace tensorpager::memory
