#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/core/device.h"
#include "fla/dispatch/observe/ops.h"

namespace fla_test {

inline constexpr fla::Device kGpu{fla::DeviceType::cuda, 0};

/// Tests that derive from it are reported as not run, with the reason, where there is no GPU.
template <class Base>
class OnGpu : public Base {
 protected:
  void SetUp() override {
    if (const auto why = fla::why_no_cuda_device(); !why.empty()) GTEST_SKIP() << "not run: " << why;
  }
};
using GpuTest = OnGpu<testing::Test>;

/// Why this build or this GPU has no such backend of kda; empty when it has it.
inline std::string why_without(std::string_view backend) {
  for (const fla::OpStatus& op : fla::ops()) {
    if (op.name != "kda") continue;
    for (const fla::BackendStatus& status : op.backends) {
      if (status.info.name == backend) return status.available ? "" : status.reason;
    }
  }
  return "this build has no " + std::string(backend);
}

/// A stream of its own, which waits for no other, not even for the default one.
class CudaStream {
 public:
  CudaStream() {
    fla::check_cuda(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "making a stream");
  }
  ~CudaStream() { (void)cudaStreamDestroy(handle_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t handle() const { return handle_; }
  fla::Stream stream() const { return {handle_}; }
  void synchronize() const { fla::check_cuda(cudaStreamSynchronize(handle_), "waiting for a stream"); }

 private:
  cudaStream_t handle_ = nullptr;
};

}  // namespace fla_test
