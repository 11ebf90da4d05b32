#pragma once

#include <pybind11/pybind11.h>

/// Where the tokens of ranks are cut, for fla_cpp.ops.cp.
namespace fla::python {

void add_placement(pybind11::module_& module);

}  // namespace fla::python
