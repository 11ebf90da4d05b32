#include "fla/python/torch_api.h"

#include <memory>

#include "fla/python/imported.h"

namespace py = pybind11;

namespace fla::python {
namespace {

PyObject* kept(const py::object& object) { return object.inc_ref().ptr(); }

PyObject* kept_if_there(const py::object& owner, const char* name) {
  return py::hasattr(owner, name) ? kept(owner.attr(name)) : nullptr;
}

/// Never freed: the functions are torch's for as long as the process lives.
TorchApi* load(const py::object& torch) {
  const py::object inside = torch.attr("_C");
  auto api = std::make_unique<TorchApi>();
  api->tensor = reinterpret_cast<PyTypeObject*>(kept(torch.attr("Tensor")));
  api->parameter = reinterpret_cast<PyTypeObject*>(kept(torch.attr("nn").attr("Parameter")));
  api->to_dlpack = kept(inside.attr("_to_dlpack"));
  api->from_dlpack = kept(inside.attr("_from_dlpack"));
  api->current_stream = kept_if_there(inside, "_cuda_getCurrentRawStream");
  api->is_grad_enabled = kept(torch.attr("is_grad_enabled"));
  api->mode_count = kept_if_there(inside, "_len_torch_dispatch_stack");
  api->dispatched = kept(py::module_::import("fla_cpp.torch_ops").attr("dispatched"));
  return api.release();
}

}  // namespace

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
