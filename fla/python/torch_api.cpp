#include "fla/python/torch_api.h"

#include <memory>
#include <string>

#include "fla/python/imported.h"

namespace py = pybind11;

namespace fla::python {
namespace {

PyObject* kept(const py::object& object) { return object.inc_ref().ptr(); }

PyObject* kept_if_there(const py::object& owner, const char* name) {
  return py::hasattr(owner, name) ? kept(owner.attr(name)) : nullptr;
}

PyGetSetDef* property_of(const py::object& tensor, const char* name) {
  const py::object property = tensor.attr(name);
  if (!Py_IS_TYPE(property.ptr(), &PyGetSetDescr_Type))
    throw py::type_error("torch.Tensor." + std::string(name) + ": expected a getset_descriptor");
  return reinterpret_cast<PyGetSetDescrObject*>(kept(property))->d_getset;
}

/// Never freed: the functions are torch's for as long as the process lives.
TorchApi* load(const py::object& torch) {
  const py::object inside = torch.attr("_C"), tensor = torch.attr("Tensor");
  auto api = std::make_unique<TorchApi>();
  api->tensor = reinterpret_cast<PyTypeObject*>(kept(tensor));
  api->parameter = reinterpret_cast<PyTypeObject*>(kept(torch.attr("nn").attr("Parameter")));
  api->export_function = kept(inside.attr("_to_dlpack"));
  if (PyCFunction_Check(api->export_function) &&
      PyCFunction_GetFlags(api->export_function) == (METH_VARARGS | METH_KEYWORDS)) {
    api->export_directly = reinterpret_cast<PyCFunctionWithKeywords>(
        reinterpret_cast<void (*)()>(PyCFunction_GetFunction(api->export_function)));
  }
  api->from_dlpack = kept(inside.attr("_from_dlpack"));
  api->current_stream = kept_if_there(inside, "_cuda_getCurrentRawStream");
  api->mode_count = kept_if_there(inside, "_len_torch_dispatch_stack");
  api->autocast_enabled = kept_if_there(inside, "_is_any_autocast_enabled");
  api->grad_enabled = kept(torch.attr("is_grad_enabled"));
  api->view_method = kept(tensor.attr("_is_view"));
  if (Py_IS_TYPE(api->view_method, &PyMethodDescr_Type)) {
    const PyMethodDef& method = *reinterpret_cast<PyMethodDescrObject*>(api->view_method)->d_method;
    if (method.ml_flags == METH_NOARGS) api->is_view_directly = method.ml_meth;
  }
  api->negative_method = kept(tensor.attr("is_neg"));
  api->resolve_method = kept(tensor.attr("resolve_neg"));
  api->increment_version = kept(inside.attr("_increment_version"));
  api->forward_mode = kept(torch.attr("autograd").attr("forward_ad").attr("__dict__"));
  api->requires_grad_property = property_of(tensor, "requires_grad");
  api->meta_property = property_of(tensor, "is_meta");
  api->dispatched = kept(py::module_::import("fla_cpp.torch_ops").attr("dispatched"));
  return api.release();
}

py::object checked(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

bool is_true(PyObject* answer) { return PyObject_IsTrue(checked(answer).ptr()) == 1; }

}  // namespace

bool TorchApi::has_dispatch_modes() const {
  return mode_count != nullptr && is_true(PyObject_CallNoArgs(mode_count));
}

bool TorchApi::is_in_forward_mode() const {
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  PyObject* level = PyDict_GetItemWithError(forward_mode, name);
  // A module that the interpreter has cleared holds None in the names' places.
  return level != nullptr && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
}

bool TorchApi::is_autocasting() const {
  return autocast_enabled != nullptr && is_true(PyObject_CallNoArgs(autocast_enabled));
}

bool TorchApi::records_gradients() const { return is_true(PyObject_CallNoArgs(grad_enabled)); }

PyObject* TorchApi::to_dlpack(PyObject* object, PyObject* one) const {
  if (export_directly == nullptr) return PyObject_CallOneArg(export_function, object);
  // Python would make a tuple for each call, which costs a third of it.
  PyObject* before = PyTuple_GET_ITEM(one, 0);
  Py_INCREF(object);
  PyTuple_SET_ITEM(one, 0, object);
  Py_XDECREF(before);
  return export_directly(PyCFunction_GetSelf(export_function), one, nullptr);
}

bool TorchApi::requires_grad(PyObject* object) const {
  return is_true(requires_grad_property->get(object, requires_grad_property->closure));
}

bool TorchApi::is_meta(PyObject* object) const {
  return is_true(meta_property->get(object, meta_property->closure));
}

bool TorchApi::is_view(PyObject* object) const {
  return is_true(is_view_directly != nullptr ? is_view_directly(object, nullptr)
                                             : PyObject_CallOneArg(view_method, object));
}

bool TorchApi::is_negative(PyObject* object) const {
  return is_true(PyObject_CallOneArg(negative_method, object));
}

py::object TorchApi::resolve_negative(PyObject* object) const {
  return checked(PyObject_CallOneArg(resolve_method, object));
}

void TorchApi::count_write(PyObject* object) const {
  const py::object one = checked(PyTuple_Pack(1, object));
  checked(PyObject_CallOneArg(increment_version, one.ptr()));
}

const TorchApi* torch_api() {
  static TorchApi* api = nullptr;
  if (api == nullptr) {
    const py::object torch = imported("torch");
    if (!torch) return nullptr;
    api = load(torch);
  }
  return api;
}

}  // namespace fla::python
