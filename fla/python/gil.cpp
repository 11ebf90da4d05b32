#include "fla/python/gil.h"

#include <unistd.h>

namespace fla::python {

ReleasedGil::~ReleasedGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    // pthread_exit, by which Python ends a thread that comes back too late. Its unwinding would run
    // destructors that need the GIL, and terminate the process at the first function that may not throw.
    for (;;) pause();
  }
}

}  // namespace fla::python
