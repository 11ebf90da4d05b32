#pragma once

#include <Python.h>

/// What the module uses of torch: a few of its Python functions, looked up once it has been imported by
/// somebody else. Nothing links against torch, and nothing here imports it.
namespace fla::python {

struct TorchApi {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyObject* to_dlpack = nullptr;
  PyObject* from_dlpack = nullptr;
  PyObject* current_stream = nullptr;   ///< device index -> handle; null in builds without CUDA
  PyObject* is_grad_enabled = nullptr;  ///< () -> bool
  PyObject* mode_count = nullptr;       ///< () -> dispatch modes in force, such as a FakeTensorMode
  PyObject* dispatched = nullptr;       ///< fla_cpp.torch_ops.dispatched

  /// A tensor that is memory and nothing else: what a subclass means, its own code has to say.
  bool is_plain(PyObject* object) const { return Py_TYPE(object) == tensor || Py_TYPE(object) == parameter; }
};

/// Null until torch has been imported. Throws what Python raised.
const TorchApi* torch_api();

}  // namespace fla::python
