#pragma once

#include <cstddef>

#include "fla/ops/kda/kda.h"

/// The original kernels on CUDA devices. They take every call that validates, on sm_80 and up, and return
/// when everything is on args.stream; with results and workspace given they neither allocate nor wait. Throw
/// InvalidArgument, before anything has run, where the tensors' device cannot be used (in a build without
/// CUDA none can) and for a workspace that does not do; BackendError or DeviceLost as CUDA answers.
namespace fla {

KdaResult chunk_kda_cuda(const KdaArgs& args);
KdaResult recurrent_kda_cuda(const KdaArgs& args);

/// Bytes of workspace that the one of the two that needs more asks for.
std::size_t workspace_size_cuda(const KdaArgs& args);

}  // namespace fla
