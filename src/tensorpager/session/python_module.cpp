// tensorpager._core: the session for Python. A thin layer; docstrings, defaults and all Python conventions are in
// python/tensorpager.
#include <ATen/dlpack.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <optional>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"
#include "tensorpager/dry/dry.h"
#include "tensorpager/intercept/compiled_call.h"
#include "tensorpager/intercept/interceptor.h"
#include "tensorpager/replay/verifier.h"
#include "tensorpager/session/accelerator.h"
#include "tensorpager/session/exit_line.h"
#include "tensorpager/session/session.h"
#include "tensorpager/session/statistics_file.h"

namespace py = pybind11;
using tensorpager::base::Bytes;
using tensorpager::session::Session;

namespace {

py::object statistics(const Session::Report& report) {
  return py::module_::import("json").attr("loads")(tensorpager::session::statistics_text(report));
}

/// `children`: sums and maxima by name, or None. `rank`: empty if torchrun did not start the process.
std::string exit_line(const Session::Report& report, const std::optional<py::dict>& children, const std::string& rank) {
  tensorpager::session::Ending ending{.counts = report.counts,
                                      .outside_budget_bytes = report.outside_budget_bytes,
                                      .wall_seconds = report.wall_seconds,
                                      .rank = rank};
  if (children) {
    const auto count = [&](const char* name) { return (*children)[name].cast<std::uint64_t>(); };
    ending.children = {.children = count("children"),
                       .need_bytes = count("need_bytes"),
                       .peak_bytes = count("peak_bytes"),
                       .over_budget_bytes = count("over_budget_bytes"),
                       .page_outs = count("page_outs"),
                       .page_out_bytes = count("page_out_bytes"),
                       .page_ins = count("page_ins"),
                       .page_in_bytes = count("page_in_bytes"),
                       .stall_seconds = (*children)["stall_seconds"].cast<double>()};
  }
  return tensorpager::session::exit_line(ending);
}

void write_statistics(const Session::Report& report, const std::string& path, std::uint64_t foreign_before_bytes,
                      bool is_of_first) {
  tensorpager::session::write_statistics(
      report, {.path = path, .is_of_first = is_of_first, .foreign_before_bytes = foreign_before_bytes});
}

/// Starts a session with the environment's settings; `options` (parameters of enable() to texts) take precedence.
void enable(const std::map<std::string, std::string>& options) {
  Session::get().enable(tensorpager::base::read_config(&std::getenv, tensorpager::base::Taker::kPython, options));
}

tensorpager::pager::Block* block_of(std::uintptr_t storage) {
  return tensorpager::intercept::find_block(*reinterpret_cast<c10::StorageImpl*>(storage));
}

/// Pins the block of a storage, given as its `_cdata` in Python.
std::uintptr_t pin_storage(std::uintptr_t storage) {
  auto* block = block_of(storage);
  if (block != nullptr) Session::get().pager().outside().pin_export(*block);
  return reinterpret_cast<std::uintptr_t>(block);
}

void unpin_export(std::uintptr_t token) {
  if (token != 0) Session::get().pager().outside().unpin_export(*reinterpret_cast<tensorpager::pager::Block*>(token));
}

/// Keeps the block of a DLPack capsule resident until the capsule's consumer calls the deleter, or the capsule is
/// destroyed unused.
template <typename Managed>
void pin_until_deleted(Managed& managed) {
  struct Held {
    void* context;
    void (*deleter)(Managed*);
    tensorpager::pager::Block* block;
  };
  auto* block = Session::get().pager().outside().pin_export(managed.dl_tensor.data);
  if (block == nullptr) return;
  managed.manager_ctx = new Held{managed.manager_ctx, managed.deleter, block};
  managed.deleter = [](Managed* self) {
    const std::unique_ptr<Held> held(static_cast<Held*>(self->manager_ctx));
    self->manager_ctx = held->context;
    self->deleter = held->deleter;
    Session::get().pager().outside().unpin_export(*held->block);
    self->deleter(self);
  };
}

void pin_capsule(const py::capsule& capsule) {
  const std::string_view name = capsule.name();
  if (name == "dltensor")
    pin_until_deleted(*capsule.get_pointer<DLManagedTensor>());
  else if (name == "dltensor_versioned")
    pin_until_deleted(*capsule.get_pointer<DLManagedTensorVersioned>());
}

/// Calls function(*arguments), a compiled kernel, as an op that touches these storages; the flag says whether a storage
/// is written.
py::object call_pinned(const py::object& function, const py::tuple& arguments,
                       const std::vector<std::pair<std::uintptr_t, bool>>& storages) {
  using tensorpager::pager::Access;
  std::vector<tensorpager::intercept::StorageArgument> touched;
  for (const auto& [storage, written] : storages)
    touched.push_back({reinterpret_cast<c10::StorageImpl*>(storage), written ? Access::kWrite : Access::kRead});
  py::object result;
  std::optional<py::gil_scoped_release> others_go_on(std::in_place);  // while the storages are paged in
  try {
    tensorpager::intercept::run_compiled(touched, [&] {
      others_go_on.reset();
      result = function(*arguments);
    });
  } catch (const c10::OutOfMemoryError& error) {
    others_go_on.reset();
    const py::object type = py::module_::import("torch").attr("OutOfMemoryError");
    PyErr_SetString(type.ptr(), error.what_without_backtrace());
    throw py::error_already_set();
  }
  return result;
}

/// Has `function` called when a dry run is complete: on the main thread, as soon as that runs Python code again.
void on_end_of_program(const py::function& function) {
  static PyObject* ending = nullptr;  // never freed: it may be called late
  ending = py::object(function).release().ptr();
  Session::get().set_end_of_program([] {
    Py_AddPendingCall(
        [](void*) {
          PyObject* const result = PyObject_CallNoArgs(ending);
          Py_XDECREF(result);
          return result == nullptr ? -1 : 0;
        },
        nullptr);
  });
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  py::register_exception<tensorpager::base::InvalidArgument>(module, "InvalidArgument", PyExc_ValueError);
  py::register_exception<tensorpager::base::IoError>(module, "IoError", PyExc_OSError);
  py::register_exception<tensorpager::base::OverBudget>(module, "OverBudget", PyExc_MemoryError);
  module.def("enable", &enable);
  module.def("disable", [] { Session::get().disable(); });
  module.def("active", [] { return Session::get().active(); });
  py::class_<Session::Report>(module, "Report");
  module.def("report", [] { return Session::get().report(); });
  module.def("statistics", &statistics);
  module.def("exit_line", &exit_line);
  module.def("write_statistics", &write_statistics);
  module.def("write_emulation_statistics", &tensorpager::session::write_emulation_statistics);
  module.def("enter_thread", [] { Session::get().enter_thread(); });
  module.def("reinstall_fault_handler", [] { Session::get().reinstall_fault_handler(); });
  module.def("pin_storage", &pin_storage);
  // A number that identifies a live storage of ours, resident or not; 0 for other storages.
  module.def("name_of_storage",
             [](std::uintptr_t storage) { return reinterpret_cast<std::uintptr_t>(block_of(storage)); });
  module.def("rebinds", [] { return Session::get().rebinds(); });
  // Whose memory is paged: cpu or cuda.
  module.def("paged_device", [] { return tensorpager::base::to_string(Session::get().paged_device()); });
  module.def("unpin_export", &unpin_export);
  module.def("pin_capsule", &pin_capsule);
  module.def("call_pinned", &call_pinned);
  // Whether this thread's allocations stay resident until they are freed.
  module.def("keep_allocations", [](bool on) { tensorpager::pager::t_state.keeps_allocations = on; });
  module.def("wants_steps", [] { return Session::get().wants_steps(); });
  module.def("name_storage", [](std::uintptr_t storage, const std::string& name) {
    Session::get().name_storage(*reinterpret_cast<c10::StorageImpl*>(storage), name);
  });
  module.def("stop_recording", [] { Session::get().stop_recording(); });
  module.def("write_trace", [](const std::string& path) { return Session::get().write_trace(path); });
  module.def("optimizer_begins", [] { Session::get().hint(tensorpager::base::Hint::kOptimizerBegins); });
  module.def("optimizer_ends", [] { Session::get().hint(tensorpager::base::Hint::kOptimizerEnds); });
  module.def("step_ends", [] { Session::get().hint(tensorpager::base::Hint::kStepEnds); });
  module.def("release_collectives", [] { Session::get().release_collectives(); });
  module.def("install_emulation", &tensorpager::session::install_emulation);
  module.def("emulation_summary", &tensorpager::session::emulation_summary);
  module.def("watch_device", [] {
    if (auto* const storages = Session::get().device_storages()) tensorpager::session::watch_device(*storages);
  });
  module.def("replay_rule", [](const std::string& op) { return tensorpager::replay::describe_rule(op); });
  module.def("dry_report", &tensorpager::dry::report);
  module.def("on_end_of_program", &on_end_of_program);
  module.def("page_out_all", [] {
    if (Session* session = Session::find()) session->pager().page_out_all();  // none before the first enable()
  });
  module.def("parse_size", [](const std::string& text) {
    return tensorpager::base::parse_size(text, tensorpager::base::physical_memory()).count();
  });
  module.def("format_bytes", [](std::uint64_t n) { return tensorpager::base::format_bytes(Bytes(n)); });
}
