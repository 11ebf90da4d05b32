#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "fla/core/errors.h"

/// What the CUDA runtime answers, as the library's errors. For code that is built with CUDA; never included
/// by a public header.
namespace fla {

/// After these the process cannot use its context any more.
inline bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorContextIsDestroyed: return true;
    default: return false;
  }
}

/// Throws BackendError, or DeviceLost for a sticky error: "<doing>: <CUDA's words>".
inline void check_cuda(cudaError_t error, const char* doing,
                       BackendError::Wrote wrote = BackendError::Wrote::maybe) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky must not be found by the next call
  const std::string text = std::string(doing) + ": " + cudaGetErrorString(error);
  if (is_sticky(error)) throw DeviceLost(text);
  throw BackendError(text, wrote);
}

/// Makes a device current for a scope, and the one before current again.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check_cuda(cudaGetDevice(&before_), "asking for the current device", BackendError::Wrote::nothing);
    if (before_ == device) return;
    check_cuda(cudaSetDevice(device), "making a device current", BackendError::Wrote::nothing);
    changed_ = true;
  }
  ~CurrentDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace fla
