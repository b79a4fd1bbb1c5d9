// libtensorpager_preload.so: loaded into every program that `tensorpager run` starts, and into their children. If the
// program is linked to libtorch, it loads libtensorpager.so, which is built against libtorch, and starts the session;
// otherwise it does nothing, so that a shell or a compiler is unaffected. Python programs start their session in
// hook/sitecustomize.py, when they import torch; libtorch is not loaded when they start, so nothing happens here.
//
// It uses no C++ runtime, as it is loaded into programs that have none.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr const char* kTorch = "libtorch_cpu";
constexpr const char* kLibrary = TENSORPAGER_LIBRARY;  // its soname
constexpr unsigned kTorchMinor[] = {TENSORPAGER_TORCH_MINOR};
/// A program with libtorch linked in has at least this size; smaller ones are not searched.
constexpr size_t kLeastStaticSize = size_t{16} << 20;
/// A text that only libtorch contains: the name of a dispatch key. Split, so that this library does not match.
constexpr const char kTorchText[] =
    "TESTING_ONLY_GenericM"
    "ode";

bool is_set(const char* variable) {
  const char* text = getenv(variable);
  return text != nullptr && *text != '\0';
}

bool is_asked_for() { return is_set("TENSORPAGER_BUDGET") || is_set("TENSORPAGER_EMULATE"); }

const char* file_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

struct Loaded {
  const char* torch = nullptr;  // path of libtorch_cpu.so
  bool library = false;         // libtensorpager.so is loaded
};

Loaded find_loaded() {
  Loaded loaded;
  const auto visit = [](dl_phdr_info* library, size_t, void* data) {
    auto& found = *static_cast<Loaded*>(data);
    const char* name = file_name(library->dlpi_name);
    if (strncmp(name, kTorch, strlen(kTorch)) == 0) found.torch = library->dlpi_name;
    if (strcmp(name, kLibrary) == 0) found.library = true;
    return 0;
  };
  dl_iterate_phdr(visit, &loaded);
  return loaded;
}

/// Whether libtorch is linked into the program itself.
bool is_torch_inside() {
  const auto visit = [](dl_phdr_info* program, size_t, void* data) {
    size_t size = 0;
    for (int i = 0; i < program->dlpi_phnum; ++i)
      if (program->dlpi_phdr[i].p_type == PT_LOAD) size += program->dlpi_phdr[i].p_memsz;
    for (int i = 0; i < program->dlpi_phnum && size >= kLeastStaticSize; ++i) {
      const ElfW(Phdr)& part = program->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_R) == 0 || (part.p_flags & PF_W) != 0) continue;
      const void* at = reinterpret_cast<const void*>(program->dlpi_addr + part.p_vaddr);
      if (memmem(at, part.p_filesz, kTorchText, strlen(kTorchText)) != nullptr) *static_cast<bool*>(data) = true;
    }
    return 1;  // ends the iteration: only the program, which comes first, is searched
  };
  bool found = false;
  dl_iterate_phdr(visit, &found);
  return found;
}

bool g_told = false;

void say_not_paged(const char* why) {
  g_told = true;
  const char* const what = is_set("TENSORPAGER_EMULATE") ? "does not have the emulated card" : "is not paged";
  fprintf(stderr, "tensorpager: %s %s: %s\n", program_invocation_name, what, why);
}

/// Patch releases of torch, and its builds with and without CUDA, share the layouts that ours is compiled with.
bool has_our_version(const char* torch) {
  using Version = uint64_t();
  void* const library = dlopen(torch, RTLD_LAZY | RTLD_NOLOAD);
  auto* const version =
      library != nullptr ? reinterpret_cast<Version*>(dlsym(library, "aoti_torch_abi_version")) : nullptr;
  const uint64_t theirs = version != nullptr ? version() : 0;
  const auto part = [&](unsigned shift) { return unsigned(theirs >> shift & 0xFF); };
  if (part(56) == kTorchMinor[0] && part(48) == kTorchMinor[1]) return true;
  char text[32] = "older than 2.9";
  if (theirs != 0) snprintf(text, sizeof text, "%u.%u.%u", part(56), part(48), part(40));
  char why[1024];
  snprintf(why, sizeof why,
           "its torch is %s (%s), this Tensorpager was built for torch " TENSORPAGER_TORCH_VERSION
           "; link it with that one, or set torch in tools/requirements.txt and run `make build`",
           text, torch);
  say_not_paged(why);
  return false;
}

/// Loads the libtensorpager.so in the folder of this library, or returns the one that the program is linked to.
void* load_library() {
  if (void* there = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD)) return there;
  Dl_info self{};
  char path[4096];
  if (dladdr(reinterpret_cast<void*>(&load_library), &self) == 0) return nullptr;
  const int folder = int(file_name(self.dli_fname) - self.dli_fname);
  snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, kLibrary);
  return dlopen(path, RTLD_NOW);
}

/// Before the program's own constructors, after libtorch's: those run when libtensorpager.so is loaded, at the latest.
[[gnu::constructor]] void at_start() {
  if (!is_asked_for()) return;
  const Loaded loaded = find_loaded();
  if (loaded.torch == nullptr) {
    if (is_torch_inside())
      say_not_paged(
          "libtorch is linked into it; link it with the shared libraries of torch " TENSORPAGER_TORCH_VERSION);
    return;
  }
  if (!has_our_version(loaded.torch)) return;
  void* const library = load_library();
  using Start = void();
  auto* const start =
      library != nullptr ? reinterpret_cast<Start*>(dlsym(library, "tensorpager_run_session")) : nullptr;
  if (start == nullptr) {
    say_not_paged(dlerror());
    return;
  }
  start();
}

/// Reports programs that had no session: libtorch was loaded later, by dlopen(), or a Python ignored our hook.
[[gnu::destructor]] void at_end() {
  if (!is_asked_for() || g_told) return;
  const Loaded loaded = find_loaded();
  if (loaded.torch == nullptr || loaded.library) return;
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr) {
    say_not_paged("its Python ignores PYTHONPATH (-E, -I or -S?); call tensorpager.enable() in it");
    return;
  }
  char why[1024];
  snprintf(why, sizeof why, "it loaded libtorch after its start, by dlopen(); start it with LD_PRELOAD=%s",
           loaded.torch);
  say_not_paged(why);
}

}  // namespace
