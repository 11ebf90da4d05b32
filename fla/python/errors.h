#pragma once

#include <pybind11/pybind11.h>

/// The library's errors as Python's, with the same sentences: InvalidArgument and ConfigError are
/// ValueErrors, BackendError and DeviceLost RuntimeErrors, and all of them fla_cpp.Error.
namespace fla::python {

/// Makes the exceptions and puts them into the module.
void add_errors(pybind11::module_& module);

/// Inside a catch: sets Python's error from the C++ one that is being handled.
void set_python_error();

/// What Python's error that is set now says; clears it.
std::string take_python_error();

}  // namespace fla::python
