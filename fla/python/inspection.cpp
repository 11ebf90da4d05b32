#include "fla/python/inspection.h"

#include <pybind11/stl.h>

#include "fla/core/cuda_devices.h"
#include "fla/core/threads.h"
#include "fla/core/version.h"
#include "fla/dispatch/config/config.h"
#include "fla/dispatch/failure/breaker.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/observe/registry_snapshot.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/python/gil.h"

namespace py = pybind11;

namespace fla::python {
namespace {

using Unlocked = py::call_guard<ReleasedGil>;

template <class T, class Type>
struct Member {
  const char* name;
  Type T::*pointer;
};
template <class T, class Type>
Member(const char*, Type T::*) -> Member<T, Type>;

/// Members that Python reads; an object is pickled as what they hold.
template <class T, class... Types>
void add_members(py::class_<T>& type, const Member<T, Types>&... members) {
  (type.def_readonly(members.name, members.pointer), ...);
  type.def(py::pickle([members...](const T& self) { return py::make_tuple(self.*(members.pointer)...); },
                      [members...](const py::tuple& state) {
                        T made{};
                        std::size_t i = 0;
                        ((made.*(members.pointer) = state[i++].template cast<Types>()), ...);
                        return made;
                      }));
}

void add_explanation(py::module_& module) {
  py::class_<Explanation> explanation(module, "Explanation", "What would become of a call, and why.");
  using Row = Explanation::Row;
  py::class_<Row> row(explanation, "Row");
  add_members(row, Member{"name", &Row::name}, Member{"priority", &Row::priority},
              Member{"state", &Row::state}, Member{"reason", &Row::reason}, Member{"place", &Row::place},
              Member{"route", &Row::route}, Member{"preferred", &Row::preferred});
  add_members(explanation, Member{"op", &Explanation::op}, Member{"function", &Explanation::function},
              Member{"dispatch_enabled", &Explanation::dispatch_enabled}, Member{"rule", &Explanation::rule},
              Member{"selected", &Explanation::selected}, Member{"error", &Explanation::error},
              Member{"rows", &Explanation::rows}, Member{"original", &Explanation::original});
  explanation.def("text", &Explanation::text)
      .def("json", &Explanation::json)
      .def("__str__", &Explanation::text);
}

void add_ops(py::module_& module) {
  py::class_<BackendStatus>(module, "BackendStatus",
                            "What is known about a backend of an op, under the policy in force.")
      .def_property_readonly("name", [](const BackendStatus& b) { return b.info.name; })
      .def_property_readonly("package", [](const BackendStatus& b) { return b.info.package; })
      .def_property_readonly("env_var", [](const BackendStatus& b) { return b.info.env_var; })
      .def_property_readonly("default_enable", [](const BackendStatus& b) { return b.info.default_enable; })
      .def_property_readonly("priority", [](const BackendStatus& b) { return b.info.priority; })
      .def_property_readonly("doc", [](const BackendStatus& b) { return b.info.doc; })
      .def_readonly("origin", &BackendStatus::origin)
      .def_readonly("functions", &BackendStatus::functions)
      .def_readonly("enabled", &BackendStatus::enabled)
      .def_readonly("available", &BackendStatus::available)
      .def_readonly("reason", &BackendStatus::reason);
  py::class_<OpStatus>(module, "OpStatus", "An op with its functions and backends.")
      .def_readonly("name", &OpStatus::name)
      .def_readonly("functions", &OpStatus::functions)
      .def_readonly("backends", &OpStatus::backends)
      .def_readonly("original", &OpStatus::original);
  module.def("ops", &fla::ops, Unlocked(),
             "Every op of the process, in alphabetical order, its backends loaded.");
}

void add_counters(py::module_& module) {
  py::class_<BackendCounters> counters(module, "BackendCounters",
                                       "What happened to the calls of one function at one backend.");
  py::class_<BackendCounters::Refusal>(counters, "Refusal")
      .def_readonly("reason", &BackendCounters::Refusal::reason)
      .def_readonly("place", &BackendCounters::Refusal::place)
      .def_readonly("count", &BackendCounters::Refusal::count);
  counters.def_readonly("op", &BackendCounters::op)
      .def_readonly("function", &BackendCounters::function)
      .def_readonly("backend", &BackendCounters::backend)
      .def_readonly("taken", &BackendCounters::taken)
      .def_readonly("failed", &BackendCounters::failed)
      .def_readonly("fell_back", &BackendCounters::fell_back)
      .def_readonly("turned_away", &BackendCounters::turned_away)
      .def_readonly("refused", &BackendCounters::refused)
      .def_property_readonly("breaker", [](const BackendCounters& row) -> std::optional<std::string_view> {
        if (!row.breaker) return std::nullopt;
        return name_of(*row.breaker);
      });
  module.def("counters", &fla::counters, Unlocked(),
             "Everything counted so far, by all threads: a row for each pair of function and backend.");
  module.def("counters_json", &counters_json, Unlocked(), "The counters as JSON, on one line.");
  module.def("counters_prometheus", &counters_prometheus, Unlocked(),
             "The counters in Prometheus' text format.");
  module.def("reset_breakers", &reset_breakers, Unlocked(),
             "Closes every breaker and forgets the failures, those of lost devices too.");
}

void add_plugins(py::module_& module) {
  py::class_<PluginStatus>(module, "PluginStatus", "What became of a plugin.")
      .def_readonly("path", &PluginStatus::path)
      .def_readonly("name", &PluginStatus::name)
      .def_readonly("state", &PluginStatus::state)
      .def_readonly("reason", &PluginStatus::reason)
      .def_readonly("library_version", &PluginStatus::library_version)
      .def_readonly("ops", &PluginStatus::ops)
      .def_readonly("backends", &PluginStatus::backends);
  module.def(
      "load_plugin", &load_plugin, py::arg("path"), Unlocked(),
      "Adds a plugin to those that were found; what came of it is in the answer. Raises InvalidArgument when "
      "there is no such file.");
  module.def("plugins", &plugins, Unlocked(), "All plugins, in the order in which they were found.");
}

}  // namespace

void add_inspection(py::module_& module) {
  add_explanation(module);
  add_ops(module);
  add_counters(module);
  add_plugins(module);
  module.def(
      "registry_json", [] { return registry_snapshot().json(); }, Unlocked(),
      "Everything that the dispatch knows of ops, backends, plugins and settings, as JSON.");
  module.def("reload_environment", &reload_environment, Unlocked(),
             "Reads every variable again, as os.environ has them now.");
  module.def("reload_config", &reload_config, Unlocked(), "Reads the file of FLA_CONFIG again now.");
  module.def("num_threads", &num_threads, Unlocked(), "How many threads CPU kernels use.");
  module.def("set_num_threads", &set_num_threads, py::arg("count"), Unlocked(),
             "Sets it for the process; 0 goes back to what the environment says.");
  module.def("why_no_cuda_device", &why_no_cuda_device, Unlocked(),
             "Why there is no CUDA device; empty when there is one.");
  module.attr("__version__") = kVersion;
}

}  // namespace fla::python
