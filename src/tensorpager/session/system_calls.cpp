#include "tensorpager/session/system_calls.h"

#include <dlfcn.h>
#include <link.h>

#include <exception>

#include "tensorpager/pager/thread_state.h"
#include "tensorpager/preload/system_calls.h"

namespace tensorpager::session {
namespace {

pager::Pager* g_exporting_pager = nullptr;
preload::Holder g_holder{};

bool hold(std::uintptr_t address, void** token) {
  *token = nullptr;
  if (pager::t_state.in_pager) return true;
  try {
    *token = g_exporting_pager->outside().pin_export(reinterpret_cast<const void*>(address));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void release(void* token) { g_exporting_pager->outside().unpin_export(*static_cast<pager::Block*>(token)); }

/// Finds the address range of the code of this library.
void find_own_code(preload::Holder& holder) {
  Dl_info info{};
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&hold), &info, &extra, RTLD_DL_LINKMAP) == 0) return;
  const auto base = static_cast<const link_map*>(extra)->l_addr;
  struct Search {
    ElfW(Addr) base;
    preload::Holder& holder;
  } search{base, holder};
  const auto visit = [](dl_phdr_info* library, std::size_t, void* data) {
    auto& [wanted, found] = *static_cast<Search*>(data);
    if (library->dlpi_addr != wanted) return 0;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const auto& part = library->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      found.own_begin = wanted + part.p_vaddr;
      found.own_end = found.own_begin + part.p_memsz;
    }
    return 1;
  };
  dl_iterate_phdr(visit, &search);
}

}  // namespace

void serve_system_calls(pager::Pager& pager, const arena::AddressSpace& space) {
  using SetHolder = decltype(::tensorpager_hold_buffers)*;
  // The copy that the program itself sees first, if any; if this library was loaded later, it is not its own.
  void* const program = dlopen(nullptr, RTLD_LAZY);
  const auto set = reinterpret_cast<SetHolder>(dlsym(program, "tensorpager_hold_buffers"));
  dlclose(program);
  if (set == nullptr) return;
  g_exporting_pager = &pager;
  g_holder.begin = reinterpret_cast<std::uintptr_t>(space.begin());
  g_holder.end = reinterpret_cast<std::uintptr_t>(space.end());
  find_own_code(g_holder);
  g_holder.hold = &hold;
  g_holder.release = &release;
  set(&g_holder);
}

}  // namespace tensorpager::session
