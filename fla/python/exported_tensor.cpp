#include "fla/python/exported_tensor.h"

#include <vector>

#include "fla/core/device_memory.h"
#include "fla/core/dlpack_abi.h"
#include "fla/python/gil.h"

namespace py = pybind11;

namespace fla::python {
namespace {

constexpr const char* kTensorCapsule = "dltensor";

/// Nobody has taken the tensor out of the capsule.
void release(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kTensorCapsule)) return;
  auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, kTensorCapsule));
  managed->deleter(managed);
}

/// DLPack's number of a stream: 1 is the legacy default stream, which is null to us.
Stream stream_of(const py::object& number) {
  if (number.is_none()) return {};
  const auto value = number.cast<std::uintptr_t>();
  return value == 1 ? Stream{} : Stream{reinterpret_cast<void*>(value)};
}

bool wants_no_wait(const py::object& number) {
  return py::isinstance<py::int_>(number) && number.cast<std::int64_t>() == -1;
}

/// bf16 has no letter of its own: its bits are shown.
const char* format_of(DType type) {
  switch (type) {
    case DType::bf16: return "H";
    case DType::f16: return "e";
    case DType::f32: return "f";
    case DType::i32: return "i";
    case DType::i64: return "q";
  }
  return "";
}

py::buffer_info buffer_of(const ExportedTensor& exported) {
  const Tensor& tensor = exported.tensor;
  if (!tensor.device().is_cpu()) {
    throw py::buffer_error("expected a tensor on cpu, got one on " + to_string(tensor.device()));
  }
  const auto size = static_cast<py::ssize_t>(size_of(tensor.dtype()));
  std::vector<py::ssize_t> shape, strides;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    shape.push_back(tensor.size(axis));
    strides.push_back(tensor.stride(axis) * size);
  }
  return {tensor.data(), size, format_of(tensor.dtype()), tensor.rank(), shape, strides};
}

py::tuple shape_of(const ExportedTensor& exported) {
  py::tuple shape(static_cast<std::size_t>(exported.tensor.rank()));
  for (int axis = 0; axis < exported.tensor.rank(); ++axis) {
    shape[static_cast<std::size_t>(axis)] = exported.tensor.size(axis);
  }
  return shape;
}

}  // namespace

py::capsule make_capsule(const Tensor& tensor) {
  DLManagedTensor* managed = tensor.to_dlpack();
  PyObject* capsule = PyCapsule_New(managed, kTensorCapsule, &release);
  if (capsule == nullptr) {
    auto* owned = reinterpret_cast<dlpack::ManagedTensor*>(managed);
    owned->deleter(owned);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::capsule>(capsule);
}

py::tuple ExportedTensor::dlpack_device() const {
  const dlpack::Device device = dlpack::device_of(tensor.device());
  return py::make_tuple(device.type, device.id);
}

py::capsule ExportedTensor::dlpack(const py::object& consumer, const py::object& max_version,
                                   const py::object& dl_device, const py::object& copy) const {
  static_cast<void>(max_version);  // the structs of version 0 are for every consumer
  if (!dl_device.is_none() && !dl_device.equal(dlpack_device())) {
    throw py::buffer_error("dl_device: expected the tensor's own, " + to_string(tensor.device()) + ", got " +
                           std::string(py::str(dl_device)));
  }
  if (!copy.is_none() && copy.cast<bool>()) throw py::buffer_error("copy: expected False or None, got True");
  if (!tensor.device().is_cpu() && !wants_no_wait(consumer) && stream_of(consumer).handle != stream.handle) {
    const ReleasedGil released;
    synchronize(tensor.device(), stream);
  }
  return make_capsule(tensor);
}

void add_exported_tensor(py::module_& module) {
  py::class_<ExportedTensor>(
      module, "Tensor", py::buffer_protocol(),
      "A result of the library. Speaks DLPack, and on the CPU the buffer protocol; bf16 is shown as "
      "16-bit integers there.")
      .def("__dlpack__", &ExportedTensor::dlpack, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
           py::arg("copy") = py::none())
      .def("__dlpack_device__", &ExportedTensor::dlpack_device)
      .def_buffer(&buffer_of)
      .def_property_readonly("shape", &shape_of)
      .def_property_readonly("dtype", [](const ExportedTensor& t) { return name_of(t.tensor.dtype()); })
      .def_property_readonly("device", [](const ExportedTensor& t) { return to_string(t.tensor.device()); })
      .def("__repr__",
           [](const ExportedTensor& t) { return "<fla_cpp.Tensor " + t.tensor.view().describe() + ">"; });
}

}  // namespace fla::python
