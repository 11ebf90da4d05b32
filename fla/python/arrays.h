#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <optional>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/tensor.h"
#include "fla/python/op.h"

/// Arrays of Python as tensors: torch's and NumPy's by ways of their own, which are faster or take more, all
/// others by DLPack.
namespace fla::python {

enum class Kind { torch, numpy, other };

/// Whose array it is. Throws TypeError, naming the argument, for what is none.
Kind kind_of(PyObject* object, std::string_view argument);

/// The CUDA stream of a call: the one that the caller named, or else the current one of the library that the
/// arrays come from, or else the legacy default stream. Looked up when the first array on a GPU is met.
class CallStream {
 public:
  explicit CallStream(PyObject* given) : given_(given) {}

  Stream of(Kind kind, PyObject* array, Device device);
  bool is_given() const { return given_ != Py_None; }
  /// What was found; a null stream when no array is on a GPU.
  Stream known() const { return found_.value_or(Stream{}); }

 private:
  PyObject* given_;
  std::optional<Stream> found_;
};

/// The memory of a call's arguments, kept until the object goes.
class BorrowedArrays {
 public:
  BorrowedArrays() = default;
  BorrowedArrays(const BorrowedArrays&) = delete;
  BorrowedArrays& operator=(const BorrowedArrays&) = delete;
  ~BorrowedArrays();

  /// Throws InvalidArgument, with the argument's name, for memory, dtypes and devices that fla does not have.
  TensorView view(const Argument& argument, PyObject* object, Kind kind, CallStream& stream);

  /// The dtype of NumPy arrays whose elements are bf16, a type that others than NumPy define; null: none
  /// came.
  PyObject* numpy_bf16() const { return numpy_bf16_.ptr(); }

  /// Whether an array's owner may reuse its memory before the stream has done the call.
  bool must_wait() const { return must_wait_; }

 private:
  TensorView view_of_torch(const Argument& argument, PyObject* object, CallStream& stream);
  TensorView view_of_capsule(const Argument& argument, pybind11::object capsule);
  TensorView view_of_numpy(const Argument& argument, PyObject* object);
  TensorView view_of_other(const Argument& argument, PyObject* object, CallStream& stream);

  std::array<PyObject*, 2 * kMaxArguments + 1> objects_;  // one or two an argument, and the workspace
  std::size_t object_count_ = 0;
  std::vector<Py_buffer> buffers_;
  pybind11::object one_place_;
  pybind11::object numpy_bf16_;
  bool must_wait_ = false;
};

/// A new array of the caller's kind over a result, without a copy. `like` is an array of his.
pybind11::object to_array(Kind kind, PyObject* like, Tensor tensor, Stream stream, PyObject* numpy_bf16);

}  // namespace fla::python
