#include "fla/python/imported.h"

namespace py = pybind11;

namespace fla::python {
namespace {

// Ours to keep: an interpreter that ends gives its own reference up, and asking it for one then is fatal.
PyObject* modules = nullptr;

}  // namespace

void keep_imports() {
  modules = PyImport_GetModuleDict();
  Py_INCREF(modules);
}

py::object imported(const char* module) {
  PyObject* found = PyDict_GetItemString(modules, module);
  // An interpreter that ends puts None in the modules' places.
  return py::reinterpret_borrow<py::object>(found == Py_None ? nullptr : found);
}

}  // namespace fla::python
