#pragma once

#include <pybind11/pybind11.h>

#include "fla/core/device.h"
#include "fla/core/tensor.h"

/// fla_cpp.Tensor: a result of the library as Python sees it. It speaks DLPack, and on the CPU the buffer
/// protocol; the arrays that callers get are views of one.
namespace fla::python {

struct ExportedTensor {
  Tensor tensor;
  Stream stream;  ///< where the work that fills it is; null: done, or on the legacy default stream

  /// A capsule of DLPack's that owns a share of the memory. `stream` is the consumer's, as DLPack writes it.
  pybind11::capsule dlpack(const pybind11::object& consumer, const pybind11::object& max_version,
                           const pybind11::object& dl_device, const pybind11::object& copy) const;
  pybind11::tuple dlpack_device() const;
};

/// A capsule "dltensor" that owns a share of the memory.
pybind11::capsule make_capsule(const Tensor& tensor);

void add_exported_tensor(pybind11::module_& module);

}  // namespace fla::python
