#include "fla/python/arrays.h"

#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/dlpack_abi.h"
#include "fla/core/errors.h"
#include "fla/python/errors.h"
#include "fla/python/exported_tensor.h"
#include "fla/python/imported.h"
#include "fla/python/torch_api.h"

namespace py = pybind11;

namespace fla::python {
namespace {

std::string type_name(PyObject* object) {
  const py::object type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  const std::string module = py::str(type.attr("__module__")), name = py::str(type.attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

/// What the module uses of NumPy, once somebody has imported it; kept for calls that come while the
/// interpreter ends and the modules are gone.
struct Numpy {
  PyTypeObject* array = nullptr;
  PyObject* asarray = nullptr;
};

const Numpy& numpy() {
  static Numpy kept;
  if (kept.array == nullptr) {
    if (const py::object module = imported("numpy"); module && py::hasattr(module, "ndarray")) {
      kept.asarray = py::object(module.attr("asarray")).release().ptr();
      kept.array = reinterpret_cast<PyTypeObject*>(py::object(module.attr("ndarray")).release().ptr());
    }
  }
  return kept;
}

/// The package that an array's type is from: "cupy", "jaxlib".
std::string package_of(PyObject* array) {
  const std::string name = type_name(array);
  return name.substr(0, name.find('.'));
}

std::string describe(dlpack::DataType type) {
  static constexpr std::array kNames{"int", "uint", "float", "opaque type of ", "bfloat", "complex", "bool"};
  const std::string name =
      type.code < kNames.size() ? kNames[type.code] : "type " + std::to_string(type.code) + " of ";
  return name + (name == "bool" ? "" : std::to_string(type.bits)) +
         (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

[[noreturn]] void wrong_dtype(const Argument& argument, const std::string& got) {
  throw InvalidArgument(argument.name, "expected dtype " + to_string(argument.dtypes) + ", got " + got);
}

void check_rank(const Argument& argument, std::int64_t rank) {
  if (rank > TensorView::kMaxRank) {
    throw InvalidArgument(argument.name, "expected at most " + std::to_string(TensorView::kMaxRank) +
                                             " dimensions, got " + std::to_string(rank));
  }
}

void check_writable(const Argument& argument, bool read_only) {
  if (argument.kind == ArgumentKind::output && read_only)
    throw InvalidArgument(argument.name, "expected memory that may be written to, got a read-only array");
}

TensorView aligned(const Argument& argument, const TensorView& view) {
  if (reinterpret_cast<std::uintptr_t>(view.data()) % size_of(view.dtype()) != 0)
    throw InvalidArgument(argument.name, "expected elements at addresses that are multiples of their size");
  return view;
}

TensorView view_of(const Argument& argument, const dlpack::Tensor& tensor) {
  const std::optional<DType> dtype = dlpack::dtype_of(tensor.dtype);
  if (!dtype) wrong_dtype(argument, describe(tensor.dtype));
  const std::optional<Device> device = dlpack::device_of(tensor.device);
  if (!device) {
    throw InvalidArgument(argument.name, "expected a tensor on the CPU or a CUDA device, got DLPack's type " +
                                             std::to_string(tensor.device.type));
  }
  return aligned(argument, dlpack::view_of(tensor, *dtype, *device, argument.name));
}

/// Whether the numbers lie where the second halves of complex ones do. A tensor of torch that has the
/// negative bit is the imaginary part of a conjugate, or else a view that torch knows as one.
bool may_be_an_imaginary_part(const TensorView& view) {
  if (reinterpret_cast<std::uintptr_t>(view.data()) / size_of(view.dtype()) % 2 == 0) return false;
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.size(axis) > 1 && view.stride(axis) % 2 != 0) return false;
  }
  return true;
}

[[noreturn]] void not_exported(const Argument& argument, PyObject* object) {
  const std::string words = take_python_error();
  throw InvalidArgument(argument.name,
                        "expected an array that DLPack can show, got " + type_name(object) + ": " + words);
}

std::optional<DType> dtype_of_format(const Py_buffer& buffer) {
  std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  if (format.starts_with('@') || format.starts_with('=')) format.remove_prefix(1);
  if (format == "f") return DType::f32;
  if (format == "e") return DType::f16;
  if (format == "i" || format == "l" || format == "q") return buffer.itemsize == 4 ? DType::i32 : DType::i64;
  return std::nullopt;
}

/// What torch, CuPy or anybody with __cuda_stream__ calls a stream, or its number.
Stream stream_given(PyObject* object) {
  const py::object stream = py::reinterpret_borrow<py::object>(object);
  py::object handle = stream;
  if (py::hasattr(stream, "cuda_stream")) {
    handle = stream.attr("cuda_stream");
  } else if (py::hasattr(stream, "__cuda_stream__")) {
    handle = stream.attr("__cuda_stream__")()[py::int_(1)];
  } else if (py::hasattr(stream, "ptr")) {
    handle = stream.attr("ptr");
  }
  if (!py::isinstance<py::int_>(handle))
    throw py::type_error("stream: expected a CUDA stream or its handle, got " + type_name(object));
  return {reinterpret_cast<void*>(handle.cast<std::uintptr_t>())};
}

/// How arrays of that type are made from something that speaks DLPack; none: nobody says.
py::object from_dlpack_of(PyObject* like) {
  const py::object array = py::reinterpret_borrow<py::object>(like);
  if (py::hasattr(array, "__array_namespace__")) {
    const py::object space = array.attr("__array_namespace__")();
    if (py::hasattr(space, "from_dlpack")) return space.attr("from_dlpack");
  }
  std::string package = package_of(like);
  if (package == "jaxlib") package = "jax.numpy";
  const py::object module = imported(package.c_str());
  return module && py::hasattr(module, "from_dlpack") ? py::object(module.attr("from_dlpack")) : py::object();
}

}  // namespace

Kind kind_of(PyObject* object, std::string_view argument) {
  const TorchApi* torch = torch_api();
  if (torch != nullptr && torch->is_plain(object)) return Kind::torch;
  PyTypeObject* numpy_array = numpy().array;
  if (numpy_array != nullptr && PyObject_TypeCheck(object, numpy_array)) return Kind::numpy;
  if (torch != nullptr && PyObject_TypeCheck(object, torch->tensor)) return Kind::torch;
  if (!PyObject_HasAttrString(object, "__dlpack__")) {
    throw py::type_error(std::string(argument) +
                         ": expected an array that speaks DLPack (torch, NumPy, CuPy, JAX, …), got " +
                         type_name(object));
  }
  return Kind::other;
}

Stream CallStream::of(Kind kind, PyObject* array, Device device) {
  if (found_) return *found_;
  if (is_given()) {
    found_ = stream_given(given_);
  } else if (kind == Kind::torch && torch_api()->current_stream != nullptr) {
    const py::object handle =
        py::reinterpret_borrow<py::object>(torch_api()->current_stream)(static_cast<int>(device.index));
    found_ = Stream{reinterpret_cast<void*>(handle.cast<std::uintptr_t>())};
  } else if (kind == Kind::other && package_of(array) == "cupy") {
    found_ = stream_given(py::object(imported("cupy").attr("cuda").attr("get_current_stream")()).ptr());
  } else {
    found_ = Stream{};
  }
  return *found_;
}

BorrowedArrays::~BorrowedArrays() {
  for (std::size_t i = 0; i < object_count_; ++i) Py_DECREF(objects_[i]);
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
}

TensorView BorrowedArrays::view(const Argument& argument, PyObject* object, Kind kind, CallStream& stream) {
  switch (kind) {
    case Kind::torch: return view_of_torch(argument, object, stream);
    case Kind::numpy: return view_of_numpy(argument, object);
    case Kind::other: return view_of_other(argument, object, stream);
  }
  return {};
}

TensorView BorrowedArrays::view_of_torch(const Argument& argument, PyObject* object, CallStream& stream) {
  const TorchApi& torch = *torch_api();
  const auto view_of = [&](PyObject* tensor) {
    if (!one_place_) one_place_ = py::tuple(1);
    PyObject* capsule = torch.to_dlpack(tensor, one_place_.ptr());
    if (capsule == nullptr) not_exported(argument, object);
    return view_of_capsule(argument, py::reinterpret_steal<py::object>(capsule));
  };
  TensorView view = view_of(object);
  if ((may_be_an_imaginary_part(view) || torch.is_view(object)) && torch.is_negative(object)) {
    if (argument.kind == ArgumentKind::output) {
      throw InvalidArgument(argument.name,
                            "expected memory that is read as it is, got a tensor with torch's negative bit");
    }
    if (!view.device().is_cpu() && stream.is_given()) {
      throw InvalidArgument(argument.name,
                            "expected a tensor without torch's negative bit in a call with a stream, got one "
                            "with it: resolve_neg() makes it one without");
    }
    view = view_of(torch.resolve_negative(object).ptr());
  }
  if (!view.device().is_cpu()) stream.of(Kind::torch, object, view.device());
  return view;
}

TensorView BorrowedArrays::view_of_capsule(const Argument& argument, py::object capsule) {
  // The capsule keeps the tensor: nobody takes it out, so that its destructor frees it.
  PyObject* held = objects_[object_count_++] = capsule.release().ptr();
  if (const void* managed = PyCapsule_GetPointer(held, "dltensor"); managed != nullptr)
    return view_of(argument, static_cast<const dlpack::ManagedTensor*>(managed)->tensor);
  PyErr_Clear();
  if (!PyCapsule_IsValid(held, "dltensor_versioned"))
    throw InvalidArgument(argument.name, "expected a capsule of DLPack, got " + type_name(held));
  const auto* managed =
      static_cast<dlpack::VersionedTensor*>(PyCapsule_GetPointer(held, "dltensor_versioned"));
  if (managed->version.major != 1) {
    throw InvalidArgument(argument.name, "expected a tensor of DLPack 1, got one of version " +
                                             std::to_string(managed->version.major));
  }
  check_writable(argument, (managed->flags & dlpack::VersionedTensor::kReadOnly) != 0);
  return view_of(argument, managed->tensor);
}

TensorView BorrowedArrays::view_of_numpy(const Argument& argument, PyObject* object) {
  constexpr int kFlags = PyBUF_STRIDES | PyBUF_FORMAT;
  const auto dtype = [object] { return py::reinterpret_borrow<py::object>(object).attr("dtype"); };
  std::optional<DType> type;
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, kFlags) != 0) {
    PyErr_Clear();
    // A type of ml_dtypes, which NumPy shows by no protocol; its bits it does.
    if (std::string(py::str(dtype().attr("name"))) != "bfloat16") wrong_dtype(argument, py::str(dtype()));
    type = DType::bf16;
    numpy_bf16_ = dtype();
    const py::object bits = py::reinterpret_borrow<py::object>(object).attr("view")("uint16");
    if (PyObject_GetBuffer(bits.ptr(), &buffer, kFlags) != 0) throw py::error_already_set();
  }
  buffers_.push_back(buffer);
  if (!type) type = dtype_of_format(buffer);
  if (!type) wrong_dtype(argument, py::str(dtype()));
  check_rank(argument, buffer.ndim);
  check_writable(argument, buffer.readonly != 0);
  std::array<std::int64_t, TensorView::kMaxRank> shape{}, strides{};
  const auto rank = static_cast<std::size_t>(buffer.ndim);
  for (std::size_t i = 0; i < rank; ++i) {
    shape[i] = buffer.shape[i];
    strides[i] = buffer.strides[i] / buffer.itemsize;
    if (buffer.strides[i] % buffer.itemsize != 0)
      throw InvalidArgument(argument.name, "expected strides of whole elements, got one of " +
                                               std::to_string(buffer.strides[i]) + " bytes");
  }
  return aligned(argument, TensorView(buffer.buf, *type, std::span(shape.data(), rank),
                                      std::span<const std::int64_t>(strides.data(), rank)));
}

TensorView BorrowedArrays::view_of_other(const Argument& argument, PyObject* object, CallStream& stream) {
  const py::object array = py::reinterpret_borrow<py::object>(object);
  const auto at = array.attr("__dlpack_device__")().cast<std::pair<std::int32_t, std::int32_t>>();
  py::dict options;
  const std::optional<Device> device = dlpack::device_of(dlpack::Device{at.first, at.second});
  if (device && !device->is_cpu()) {
    const void* handle = stream.of(Kind::other, object, *device).handle;
    // Null is what DLPack leaves to guess: its 1 is the legacy default stream.
    options["stream"] = handle == nullptr ? 1 : reinterpret_cast<std::uintptr_t>(handle);
    must_wait_ = must_wait_ || package_of(object) != "cupy";  // CuPy frees in the order of the stream
  }
  py::dict versioned = options.attr("copy")();
  versioned["max_version"] = py::make_tuple(1, 0);
  const py::object dlpack = array.attr("__dlpack__");
  PyObject* capsule = PyObject_Call(dlpack.ptr(), py::tuple().ptr(), versioned.ptr());
  if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) {  // older than the keyword
    PyErr_Clear();
    capsule = PyObject_Call(dlpack.ptr(), py::tuple().ptr(), options.ptr());
  }
  if (capsule == nullptr) not_exported(argument, object);
  return view_of_capsule(argument, py::reinterpret_steal<py::object>(capsule));
}

py::object to_array(Kind kind, PyObject* like, Tensor tensor, Stream stream, PyObject* numpy_bf16) {
  if (kind == Kind::torch) {
    const py::object capsule = make_capsule(tensor);
    PyObject* array = PyObject_CallOneArg(torch_api()->from_dlpack, capsule.ptr());
    if (array == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(array);
  }
  const bool bf16 = tensor.dtype() == DType::bf16;
  const py::object exported = py::cast(ExportedTensor{std::move(tensor), stream});
  if (kind == Kind::numpy) {
    const py::object array = py::reinterpret_borrow<py::object>(numpy().asarray)(exported);
    return bf16 ? py::object(array.attr("view")(py::handle(numpy_bf16))) : array;
  }
  const py::object from_dlpack = from_dlpack_of(like);
  return from_dlpack ? from_dlpack(exported) : exported;
}

}  // namespace fla::python
