#include "fla/python/errors.h"

#include <new>
#include <string>

#include "fla/core/errors.h"

namespace py = pybind11;

namespace fla::python {
namespace {

// Owned by the process: an exception may be raised as long as there is an interpreter.
PyObject *base, *invalid_argument, *config_error, *backend_error, *device_lost;

PyObject* make(py::module_& module, const char* name, const char* doc, py::tuple bases) {
  const std::string full = "fla_cpp." + std::string(name);
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::handle(type);
  return type;
}

void set_invalid_argument(const InvalidArgument& error) {
  const py::object raised = py::reinterpret_borrow<py::object>(invalid_argument)(error.what());
  raised.attr("argument") = error.argument();
  raised.attr("op") = error.op();
  PyErr_SetObject(invalid_argument, raised.ptr());
}

}  // namespace

void add_errors(py::module_& module) {
  const auto with = [](PyObject* first, PyObject* second) {
    return py::make_tuple(py::handle(first), py::handle(second));
  };
  base =
      make(module, "Error", "Base of what the library raises.", py::make_tuple(py::handle(PyExc_Exception)));
  invalid_argument = make(module, "InvalidArgument",
                          "An argument of a call is wrong; `argument` is its name, `op` the op's. Nothing "
                          "has run and nothing was "
                          "written.",
                          with(base, PyExc_ValueError));
  for (const char* name : {"argument", "op"}) py::setattr(invalid_argument, name, py::str());
  config_error = make(module, "ConfigError", "A setting is wrong. The settings that were in force stay.",
                      with(base, PyExc_ValueError));
  backend_error =
      make(module, "BackendError", "A backend failed, or the one that was required did not take the call.",
           with(base, PyExc_RuntimeError));
  device_lost = make(module, "DeviceLost", "The device is lost to this process, after a sticky CUDA error.",
                     py::make_tuple(py::handle(backend_error)));
  py::register_exception_translator([](std::exception_ptr exception) {
    try {
      if (exception) std::rethrow_exception(exception);
    } catch (const Error&) {
      set_python_error();
    }
  });
}

void set_python_error() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const InvalidArgument& error) {
    set_invalid_argument(error);
  } catch (const ConfigError& error) {
    PyErr_SetString(config_error, error.what());
  } catch (const DeviceLost& error) {
    PyErr_SetString(device_lost, error.what());
  } catch (const BackendError& error) {
    PyErr_SetString(backend_error, error.what());
  } catch (const Error& error) {
    PyErr_SetString(base, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "fla_cpp: something that is no exception was thrown");
  }
}

std::string take_python_error() {
  const py::error_already_set error;
  return py::str(error.value());
}

}  // namespace fla::python
