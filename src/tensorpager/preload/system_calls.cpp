#undef _FORTIFY_SOURCE  // its inline versions would conflict with ours
#include "tensorpager/preload/system_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tensorpager::preload {
namespace {

const Holder* g_holder = nullptr;

const Holder* holder() { return __atomic_load_n(&g_holder, __ATOMIC_ACQUIRE); }

bool is_ours(const Holder* one, uintptr_t buffer) { return buffer >= one->begin && buffer < one->end; }

bool is_paging(const Holder* one, uintptr_t caller) { return caller >= one->own_begin && caller < one->own_end; }

/// Keeps a buffer resident during a call made by `caller`.
class Held {
 public:
  Held(uintptr_t buffer, uintptr_t caller) {
    const Holder* one = holder();
    if (one == nullptr || !is_ours(one, buffer) || is_paging(one, caller)) [[likely]]
      return;
    refused_ = !one->hold(buffer, &token_);
  }
  ~Held() {
    if (token_ != nullptr) holder()->release(token_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  bool refused() const { return refused_; }

 private:
  void* token_ = nullptr;
  bool refused_ = false;
};

/// The same for a list of buffers.
class HeldList {
 public:
  HeldList(const iovec* buffers, size_t count, uintptr_t caller) {
    const Holder* one = holder();
    if (one == nullptr || is_paging(one, caller)) [[likely]]
      return;
    for (size_t i = 0; i < count && i < kMost && !refused_; ++i) {
      const auto buffer = reinterpret_cast<uintptr_t>(buffers[i].iov_base);
      if (is_ours(one, buffer)) refused_ = !one->hold(buffer, &tokens_[held_++]);
    }
  }
  ~HeldList() {
    while (held_ > 0)
      if (void* token = tokens_[--held_]) holder()->release(token);
  }
  HeldList(const HeldList&) = delete;
  HeldList& operator=(const HeldList&) = delete;
  bool refused() const { return refused_; }

 private:
  static constexpr size_t kMost = 1024;  // UIO_MAXIOV: the kernel takes no more
  void* tokens_[kMost];                  // only those below held_ are set
  size_t held_ = 0;
  bool refused_ = false;
};

ssize_t no_room() {
  errno = ENOMEM;
  return -1;
}

}  // namespace
}  // namespace tensorpager::preload

using tensorpager::preload::Held;
using tensorpager::preload::HeldList;

// The C library's own function. It is looked up when this library is loaded, since dlsym() must not be called in a
// signal handler or in a fork of a process with threads; another library's constructor may call it earlier.
#define TENSORPAGER_NEXT(name)                                                                  \
  static decltype(::name)* next_##name() {                                                      \
    static decltype(::name)* found = nullptr;                                                   \
    if (found == nullptr) found = reinterpret_cast<decltype(::name)*>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                               \
  }                                                                                             \
  [[gnu::constructor]] static void find_##name() { next_##name(); }

#define TENSORPAGER_NUMBER(pointer) reinterpret_cast<uintptr_t>(pointer)
#define TENSORPAGER_CALLER TENSORPAGER_NUMBER(__builtin_return_address(0))

// Defines a call with one buffer: its arguments as declared, as passed on, and which of them is the buffer.
#define TENSORPAGER_CALL(name, declared, passed, buffer)                            \
  TENSORPAGER_NEXT(name)                                                            \
  ssize_t name declared {                                                           \
    const Held held(TENSORPAGER_NUMBER(buffer), TENSORPAGER_CALLER);                \
    return held.refused() ? tensorpager::preload::no_room() : next_##name() passed; \
  }
#define TENSORPAGER_LIST_CALL(name, declared, passed, list, count)                  \
  TENSORPAGER_NEXT(name)                                                            \
  ssize_t name declared {                                                           \
    const HeldList held(list, static_cast<size_t>(count), TENSORPAGER_CALLER);      \
    return held.refused() ? tensorpager::preload::no_room() : next_##name() passed; \
  }

extern "C" {
// Called by programs that were compiled with _FORTIFY_SOURCE; without it, no header declares them.
ssize_t __read_chk(int file, void* data, size_t size, size_t room);
ssize_t __pread_chk(int file, void* data, size_t size, off_t at, size_t room);
ssize_t __pread64_chk(int file, void* data, size_t size, off64_t at, size_t room);
ssize_t __recv_chk(int socket, void* data, size_t size, size_t room, int flags);
size_t __fread_chk(void* data, size_t room, size_t size, size_t count, FILE* file);

TENSORPAGER_CALL(read, (int file, void* data, size_t size), (file, data, size), data)
TENSORPAGER_CALL(write, (int file, const void* data, size_t size), (file, data, size), data)
TENSORPAGER_CALL(pread, (int file, void* data, size_t size, off_t at), (file, data, size, at), data)
TENSORPAGER_CALL(pwrite, (int file, const void* data, size_t size, off_t at), (file, data, size, at), data)
TENSORPAGER_CALL(pread64, (int file, void* data, size_t size, off64_t at), (file, data, size, at), data)
TENSORPAGER_CALL(pwrite64, (int file, const void* data, size_t size, off64_t at), (file, data, size, at), data)
TENSORPAGER_CALL(recv, (int socket, void* data, size_t size, int flags), (socket, data, size, flags), data)
TENSORPAGER_CALL(send, (int socket, const void* data, size_t size, int flags), (socket, data, size, flags), data)
TENSORPAGER_CALL(__read_chk, (int file, void* data, size_t size, size_t room), (file, data, size, room), data)
TENSORPAGER_CALL(__pread_chk, (int file, void* data, size_t size, off_t at, size_t room), (file, data, size, at, room),
                 data)
TENSORPAGER_CALL(__pread64_chk, (int file, void* data, size_t size, off64_t at, size_t room),
                 (file, data, size, at, room), data)
TENSORPAGER_CALL(__recv_chk, (int socket, void* data, size_t size, size_t room, int flags),
                 (socket, data, size, room, flags), data)
TENSORPAGER_LIST_CALL(readv, (int file, const iovec* list, int count), (file, list, count), list, count)
TENSORPAGER_LIST_CALL(writev, (int file, const iovec* list, int count), (file, list, count), list, count)
TENSORPAGER_LIST_CALL(recvmsg, (int socket, msghdr* message, int flags), (socket, message, flags), message->msg_iov,
                      message->msg_iovlen)
TENSORPAGER_LIST_CALL(sendmsg, (int socket, const msghdr* message, int flags), (socket, message, flags),
                      message->msg_iov, message->msg_iovlen)

// Streams do not use the calls above, and copy large amounts directly to and from the caller's memory.
TENSORPAGER_NEXT(fread)
size_t fread(void* data, size_t size, size_t count, FILE* file) {
  const Held held(TENSORPAGER_NUMBER(data), TENSORPAGER_CALLER);
  return held.refused() ? 0 : next_fread()(data, size, count, file);
}
TENSORPAGER_NEXT(__fread_chk)
size_t __fread_chk(void* data, size_t room, size_t size, size_t count, FILE* file) {
  const Held held(TENSORPAGER_NUMBER(data), TENSORPAGER_CALLER);
  return held.refused() ? 0 : next___fread_chk()(data, room, size, count, file);
}
TENSORPAGER_NEXT(fwrite)
size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  const Held held(TENSORPAGER_NUMBER(data), TENSORPAGER_CALLER);
  return held.refused() ? 0 : next_fwrite()(data, size, count, file);
}

void tensorpager_hold_buffers(const tensorpager::preload::Holder* one) {
  __atomic_store_n(&tensorpager::preload::g_holder, one, __ATOMIC_RELEASE);
}
}
