#pragma once

#include <Python.h>

namespace fla::python {

/// Gives the GIL up for as long as it lives. A thread whose interpreter ended meanwhile (a daemon thread's
/// may) stays in the destructor for the rest of the process: nothing that follows may touch Python any more.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace fla::python
