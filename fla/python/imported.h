#pragma once

#include <pybind11/pybind11.h>

namespace fla::python {

/// Called once, while the module is imported.
void keep_imports();

/// A module that somebody has imported; null where nobody has, and while the interpreter ends.
pybind11::object imported(const char* module);

}  // namespace fla::python
