#include "tensorpager/dry/dry.h"

#include <torch/library.h>

#include <cstdlib>
#include <string_view>

#include "tensorpager/dry/key.h"
#include "tensorpager/dry/skipper.h"

namespace tensorpager::dry {
namespace {

Skipper* g_skipper = nullptr;  // lives for ever: threads may be in it when the process ends

void skip(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  g_skipper->call(op, keys, stack);
}

}  // namespace

void install(const Options& options) {
  if (g_skipper != nullptr) return;
  Options used = options;
  const char* first_runs = std::getenv("TENSORPAGER_DRY_FIRST_RUNS");
  if (first_runs != nullptr && std::string_view(first_runs) == "0") used.first_run_bytes = 0;
  g_skipper = new Skipper(used);
  auto* all = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&skip>());
}

void enter_thread() {
  if (!c10::impl::tls_is_dispatch_key_included(kKey)) c10::impl::tls_set_dispatch_key_included(kKey, true);
}

std::string report() { return g_skipper == nullptr ? std::string() : g_skipper->report(); }

}  // namespace tensorpager::dry
