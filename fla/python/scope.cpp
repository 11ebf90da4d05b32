#include "fla/python/scope.h"

#include <pybind11/stl.h>

#include <string>
#include <type_traits>

#include "fla/python/gil.h"

namespace py = pybind11;

namespace fla::python {
namespace {

PyObject* variable = nullptr;  // lives as long as the process

/// A field of Policy as Python sees it; None says nothing, as in C++.
struct Field {
  const char* name;
  const char* expected;
  void (*set)(Policy& policy, py::handle value);
  py::object (*get)(const Policy& policy);
};

template <auto Member>
Field field(const char* name, const char* expected) {
  return {name, expected,
          [](Policy& policy, py::handle value) {
            using Type = std::remove_cvref_t<decltype(policy.*Member)>;
            policy.*Member = value.cast<Type>();
          },
          [](const Policy& policy) { return py::cast(policy.*Member); }};
}

void set_on_failure(Policy& policy, py::handle value) {
  const auto name = value.cast<std::string>();
  if (name != "raise" && name != "fallback") throw py::cast_error();
  policy.on_failure = name == "raise" ? OnFailure::raise : OnFailure::fallback;
}

py::object get_on_failure(const Policy& policy) {
  if (!policy.on_failure) return py::none();
  return py::str(*policy.on_failure == OnFailure::raise ? "raise" : "fallback");
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all{
      field<&Policy::disable_dispatch>("disable_dispatch", "True or False"),
      field<&Policy::enable>("enable", "a dict {backend: True or False}"),
      field<&Policy::order>("order", "a dict {op: [backend, …]}"),
      field<&Policy::prefer>("prefer", "a dict {op: [backend, …]}"),
      field<&Policy::allow>("allow", "a list of backends"),
      field<&Policy::deny>("deny", "a list of backends"),
      field<&Policy::require>("require", "a dict {op: backend}"),
      {"on_failure", "'raise' or 'fallback'", &set_on_failure, &get_on_failure},
      field<&Policy::batch_invariant>("batch_invariant", "True or False"),
      field<&Policy::check_verifiers>("check_verifiers", "True or False"),
      field<&Policy::breaker_threshold>("breaker_threshold", "a whole number"),
      field<&Policy::breaker_window_ms>("breaker_window_ms", "a whole number"),
      field<&Policy::breaker_cool_down_ms>("breaker_cool_down_ms", "a whole number"),
  };
  return all;
}

const Field& field_named(const std::string& name) {
  std::string names;
  for (const Field& field : fields()) {
    if (field.name == name) return field;
    names += (names.empty() ? "" : ", ") + std::string(field.name);
  }
  throw py::type_error("policy: expected settings of " + names + ", got " + name);
}

Policy make_policy(const py::kwargs& settings) {
  Policy policy;
  for (const auto& [key, value] : settings) {
    if (value.is_none()) continue;
    const auto name = key.cast<std::string>();
    const Field& field = field_named(name);
    try {
      field.set(policy, value);
    } catch (const py::cast_error&) {
      throw py::type_error(std::string(field.name) + ": expected " + field.expected + ", got " +
                           std::string(py::repr(value)));
    }
  }
  return policy;
}

std::string text_of(const Policy& policy) {
  std::string text;
  for (const Field& field : fields()) {
    const py::object value = field.get(policy);
    const bool says_nothing = value.is_none() || (py::isinstance<py::dict>(value) && py::len(value) == 0);
    if (says_nothing) continue;
    text += (text.empty() ? "" : ", ") + std::string(field.name) + "=" + std::string(py::repr(value));
  }
  return "Policy(" + text + ")";
}

}  // namespace

Scope::Scope() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) != 0) throw py::error_already_set();
  if (value == nullptr) return;
  context_ = py::reinterpret_steal<py::object>(value);
  if (context_.is_none()) return;
  for (const py::handle policy : context_) policies_.push_back(&policy.cast<const Policy&>());
}

void add_scope(py::module_& module) {
  variable = PyContextVar_New("fla_cpp.policy", Py_None);
  if (variable == nullptr) throw py::error_already_set();
  module.attr("scope") = py::handle(variable);

  py::class_<Policy> policy(
      module, "Policy", "What a person can set about the dispatch; a field that is left out says nothing.");
  policy.def(py::init(&make_policy))
      .def("__eq__", [](const Policy& a, const Policy& b) { return a == b; })
      .def("__repr__", &text_of)
      .def(py::pickle(
          [](const Policy& self) {
            py::dict settings;
            for (const Field& field : fields()) settings[field.name] = field.get(self);
            return settings;
          },
          [](const py::dict& settings) { return make_policy(py::kwargs(settings)); }));
  for (const Field& field : fields())
    policy.def_property_readonly(field.name, [get = field.get](const Policy& self) { return get(self); });

  module.def("check_scope", [] {
    const Scope scope;
    const ReleasedGil released;
    const Scope::Policies policies(scope);
  });
  module.def("set_policy", &set_policy, py::call_guard<ReleasedGil>());
  module.def("current_policy", &current_policy, py::call_guard<ReleasedGil>(),
             "What the config file, its rules left out, the environment and set_policy amount to.");
}

}  // namespace fla::python
