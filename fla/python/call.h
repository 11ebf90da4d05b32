#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>

#include "fla/dispatch/observe/explain.h"
#include "fla/python/arrays.h"
#include "fla/python/op.h"

/// A call from Python. The values come in the order of the op's table, with the stream behind them; None
/// stands for what was left out.
namespace fla::python {

/// Runs it with the GIL released and returns the results as a tuple, None for one that was not asked for.
/// Calls that torch has to see (subclasses, gradients, dispatch modes) go through its dispatcher, which comes
/// back `directly`.
pybind11::object call(const OpFunction& function, PyObject* const* values, bool directly);

/// Runs it again and again from C++, its results dropped; seconds in all. For benchmarks.
double repeat_call(const OpFunction& function, PyObject* const* values, std::int64_t count);

Explanation explain_call(const OpFunction& function, PyObject* const* values);

}  // namespace fla::python
