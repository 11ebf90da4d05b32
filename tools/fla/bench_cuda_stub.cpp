// In builds without CUDA.
#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "tools/fla/bench_cuda.h"

namespace fla::command {

int bench_steps(const CudaBenchRequest&) { return 1; }

CudaBenchReport run_bench(const CudaBenchRequest&, Progress&) {
  throw InvalidArgument("device", why_no_cuda_device());
}

}  // namespace fla::command
