#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "fla/python/call.h"
#include "fla/python/errors.h"
#include "fla/python/exported_tensor.h"
#include "fla/python/imported.h"
#include "fla/python/inspection.h"
#include "fla/python/op.h"
#include "fla/python/placement.h"
#include "fla/python/scope.h"

#ifdef Py_GIL_DISABLED
#error "fla_cpp: expected a Python with the GIL, got a free-threaded build"
#endif

// The extension of the package fla_cpp, whose Python files make functions with signatures from what is here.

namespace py = pybind11;

namespace fla::python {
namespace {

constexpr const char* kFunctionCapsule = "fla_cpp.function";

const OpFunction* function_in(PyObject* capsule) {
  return static_cast<const OpFunction*>(PyCapsule_GetPointer(capsule, kFunctionCapsule));
}

PyObject* checked_call(PyObject* self, PyObject* const* values, Py_ssize_t count, bool directly) {
  try {
    const OpFunction& function = *function_in(self);
    if (count != static_cast<Py_ssize_t>(function.op->table.size() + 1))
      throw py::type_error(std::string(function.name) + ": expected the values of its table and a stream");
    return call(function, values, directly).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* call_from_python(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  return checked_call(self, values, count, false);
}

PyObject* call_from_torch(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  return checked_call(self, values, count, true);
}

using FastCall = PyObject* (*)(PyObject* self, PyObject* const* values, Py_ssize_t count);

py::object callable(const py::capsule& function, FastCall run, const char* name) {
  // Lives as long as the process, like the functions.
  auto* method = new PyMethodDef{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)),
                                 METH_FASTCALL, nullptr};
  return py::reinterpret_steal<py::object>(PyCFunction_New(method, function.ptr()));
}

constexpr std::string_view name_of_kind(ArgumentKind kind) {
  constexpr std::array<std::string_view, 6> kNames{"tensor", "index", "output", "number", "integer", "flag"};
  return kNames[static_cast<std::size_t>(kind)];
}

py::list table_of(const Op& op) {
  py::list rows;
  for (const Argument& argument : op.table) {
    py::dict row;
    row["name"] = argument.name;
    row["kind"] = name_of_kind(argument.kind);
    row["required"] = argument.need == Need::required;
    row["dtypes"] = to_string(argument.dtypes);
    row["shape"] = argument.shape.text;
    row["names_slots"] = argument.names_slots();
    row["needs"] = argument.needs;
    row["doc"] = argument.doc;
    rows.append(row);
  }
  return rows;
}

py::list results_of(const Op& op) {
  py::list rules;
  for (const ResultRule& rule : op.results)
    rules.append(py::make_tuple(rule.output, rule.asked_for, rule.like, rule.gradient_of));
  return rules;
}

/// For each function: op, name, documentation, table, rules of its results, and what calls it.
py::list functions_for_python() {
  py::list all;
  for (const OpFunction& function : functions()) {
    const py::capsule capsule(&function, kFunctionCapsule);
    py::dict entry;
    entry["op"] = function.op->name;
    entry["name"] = function.name;
    entry["backward"] = function.backward;
    entry["doc"] = function.doc;
    entry["formula"] = function.formula;
    entry["table"] = table_of(*function.op);
    entry["results"] = results_of(*function.op);
    entry["call"] = callable(capsule, &call_from_python, function.name.data());
    entry["direct"] = callable(capsule, &call_from_torch, function.name.data());
    all.append(entry);
  }
  return all;
}

/// Calls `use` with the function of that name and the values of its table, the stream behind them.
template <class Use>
auto with_call(std::string_view name, const py::tuple& values, const Use& use) {
  for (const OpFunction& function : functions()) {
    if (function.name != name || values.size() != function.op->table.size() + 1) continue;
    std::array<PyObject*, kMaxArguments + 1> pointers;
    for (std::size_t i = 0; i < values.size(); ++i)
      pointers[i] = PyTuple_GET_ITEM(values.ptr(), static_cast<Py_ssize_t>(i));
    return use(function, pointers.data());
  }
  throw py::type_error("expected the name of a function and the values of its table, got " +
                       std::string(name) + " and " + std::to_string(values.size()) + " values");
}

Explanation explain(std::string_view name, const py::tuple& values) {
  return with_call(name, values, &explain_call);
}

double repeat(std::string_view name, const py::tuple& values, std::int64_t count) {
  return with_call(name, values, [count](const OpFunction& function, PyObject* const* pointers) {
    return repeat_call(function, pointers, count);
  });
}

}  // namespace
}  // namespace fla::python

PYBIND11_MODULE(_fla_cpp, module) {
  using namespace fla::python;
  keep_imports();
  add_errors(module);
  add_exported_tensor(module);
  add_scope(module);
  add_inspection(module);
  add_placement(module);
  module.def("functions", &functions_for_python);
  module.def("explain", &explain);
  module.def("repeat", &repeat);
}
