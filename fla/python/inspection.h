#pragma once

#include <pybind11/pybind11.h>

/// What the dispatch tells: explanations, ops and their backends, plugins, counters, devices.
namespace fla::python {

void add_inspection(pybind11::module_& module);

}  // namespace fla::python
