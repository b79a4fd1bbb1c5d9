#include "tensorpager/session/accelerator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::session {
namespace {

/// Loads a library from the folder of this one. Returns null if it is missing or does not load, as with a torch without
/// CUDA.
void* load_beside(const char* name) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&load_beside), &self) == 0) return nullptr;
  return dlopen((std::filesystem::path(self.dli_fname).parent_path() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

[[noreturn]] void fail_without_cuda(const char* library) {
  const char* const why = dlerror();
  throw base::InvalidArgument(
      std::string("this build cannot use CUDA or emulate it, as ") + library + " is missing or does not load (" +
      (why != nullptr ? why : "no reason given") +
      "); it is built with a torch that has CUDA, as PyPI's wheels for Linux have, which need no GPU: "
      "pip install torch, and build again");
}

constexpr const char* kCudaLibrary = "libtensorpager_cuda.so";

template <typename Function>
Function* find_in_cuda_library(const char* name) {
  void* const library = load_beside(kCudaLibrary);
  auto* const function = library != nullptr ? find<Function>(library, name) : nullptr;
  if (function == nullptr) fail_without_cuda(kCudaLibrary);
  return function;
}

bool has_card() { return dlsym(RTLD_DEFAULT, "tensorpager_fake_cuda_report") != nullptr; }

nlohmann::json read_report() {
  nlohmann::json report = nlohmann::json::parse(find<const char*()>(RTLD_DEFAULT, "tensorpager_fake_cuda_report")());
  const DeviceMemory memory = device_memory();
  report["max_allocated_bytes"] = memory.most_allocated;
  report["max_reserved_bytes"] = memory.most_reserved;
  return report;
}

}  // namespace

bool is_emulation_wanted() {
  const char* const card = std::getenv("TENSORPAGER_EMULATE");
  return card != nullptr && *card != '\0';
}

void install_emulation() {
  if (!has_card())
    throw base::InvalidArgument(
        "TENSORPAGER_EMULATE is set, but the emulated card is not there, as it must be loaded before the program; "
        "start the program by "
        "`tensorpager run --emulate CARD -- PROGRAM`");
  constexpr const char* kLibrary = "libtensorpager_emulation.so";
  void* const library = load_beside(kLibrary);
  auto* const install = library != nullptr ? find<int()>(library, "tensorpager_emulation_install") : nullptr;
  if (install == nullptr) fail_without_cuda(kLibrary);
  install();
}

std::string emulation_report() { return has_card() ? read_report().dump() : std::string(); }

std::string emulation_summary() {
  if (!has_card()) return {};
  const nlohmann::json report = read_report();
  const auto bytes = [&](const char* name) {
    return base::format_bytes(base::Bytes(report[name].get<std::uint64_t>()));
  };
  const auto races = report["races"].get<std::uint64_t>();
  std::string text = "emulated " + report["card"].get<std::string>() + ": at most " + bytes("max_allocated_bytes") +
                     " allocated, " + bytes("max_reserved_bytes") + " reserved; " +
                     std::to_string(report["kernels"].get<std::uint64_t>()) + " kernels, " + std::to_string(races) +
                     (races == 1 ? " race" : " races");
  if (races > 0) text += ", the first: " + report["first_race"].get<std::string>();
  return text;
}

void watch_device(intercept::DeviceStorages& storages) {
  find_in_cuda_library<void(intercept::DeviceStorages*)>("tensorpager_cuda_watch")(&storages);
}

memory::PagedMemory* make_card_memory(base::Bytes budget, void (*thread_observer)()) {
  return find_in_cuda_library<memory::PagedMemory*(std::uint64_t, void (*)())>("tensorpager_cuda_make_memory")(
      budget.count(), thread_observer);
}

base::Bytes size_of_card() { return base::Bytes(find_in_cuda_library<std::uint64_t()>("tensorpager_cuda_size")()); }

DeviceMemory device_memory() {
  DeviceMemory memory;
  void* const library = load_beside(kCudaLibrary);
  auto* const read = library != nullptr ? find<void(unsigned long long*)>(library, "tensorpager_cuda_memory") : nullptr;
  unsigned long long figures[4] = {};
  if (read != nullptr) read(figures);
  return {figures[0], figures[1], figures[2], figures[3]};
}

}  // namespace tensorpager::session
