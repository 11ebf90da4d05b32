#pragma once

#include <pybind11/pybind11.h>

/// What the module uses of torch: a few of its Python functions, looked up once it has been imported by
/// somebody else. Nothing links against torch, and nothing here imports it.
namespace fla::python {

/// What to ask a tensor, in the fastest way that Python has. Everything throws what Python raised.
struct TorchApi {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyObject* from_dlpack = nullptr;
  PyObject* current_stream = nullptr;  ///< device index -> handle; null in builds without CUDA
  PyObject* dispatched = nullptr;      ///< fla_cpp.torch_ops.dispatched

  /// A tensor that is memory and nothing else: what a subclass means, its own code has to say.
  bool is_plain(PyObject* object) const { return Py_TYPE(object) == tensor || Py_TYPE(object) == parameter; }

  /// Such as a FakeTensorMode.
  bool has_dispatch_modes() const;
  bool is_in_forward_mode() const;
  bool is_autocasting() const;
  bool records_gradients() const;

  // Of plain tensors:
  /// Its capsule of DLPack; null where Python raised. `one` is a tuple with one place, to be used again.
  PyObject* to_dlpack(PyObject* object, PyObject* one) const;
  bool requires_grad(PyObject* object) const;
  /// Whether it has a shape and no memory.
  bool is_meta(PyObject* object) const;
  bool is_view(PyObject* object) const;
  /// Releases the GIL, and is slow for what it does.
  bool is_negative(PyObject* object) const;
  pybind11::object resolve_negative(PyObject* object) const;
  /// So that a backward pass that kept the tensor notices.
  void count_write(PyObject* object) const;

  // Functions and methods. mode_count and autocast_enabled may be null; the ways in are null where a function
  // has another kind.
  PyObject *export_function = nullptr, *mode_count = nullptr, *autocast_enabled = nullptr,
           *grad_enabled = nullptr, *view_method = nullptr, *negative_method = nullptr,
           *resolve_method = nullptr, *increment_version = nullptr;
  PyCFunctionWithKeywords export_directly = nullptr;
  PyCFunction is_view_directly = nullptr;
  PyGetSetDef *requires_grad_property = nullptr, *meta_property = nullptr;
  PyObject* forward_mode = nullptr;  ///< the names of torch.autograd.forward_ad
};

/// Null until torch has been imported. Throws what Python raised.
const TorchApi* torch_api();

}  // namespace fla::python
