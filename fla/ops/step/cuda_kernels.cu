#include <algorithm>

#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/gated_rms_norm/cuda_kernel.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/short_conv/cuda_kernel.h"
#include "fla/ops/step/cuda_kernels.h"

namespace fla::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

/// Where things lie in the workspace.
struct Places {
  std::size_t qkv, o, end;
};

Places places_of(const StepCall& call) {
  const auto bytes = [&](std::int64_t elements) {
    const std::size_t all = static_cast<std::size_t>(elements) * size_of(call.conv.x.dtype);
    return (all + kAlignment - 1) / kAlignment * kAlignment;
  };
  const std::size_t qkv = index_workspace(call.conv);
  const std::size_t o = qkv + bytes(call.conv.N * call.conv.D);
  return {qkv, o, o + bytes(call.norm.rows() * call.norm.V)};
}

}  // namespace

std::int64_t step_blocks(const StepCall& call) {
  const RecurrenceCall& recurrence = call.recurrence;
  const std::int64_t heads = recurrence.N * recurrence.HV * ((recurrence.V + 31) / 32);
  return std::max({short_conv_blocks(call.conv), heads, gated_rms_norm_blocks(call.norm)});
}

std::size_t step_workspace(const StepCall& call) { return places_of(call).end; }

step::Between between_in(const StepCall& call, void* workspace) {
  const Places places = places_of(call);
  char* const memory = static_cast<char*>(workspace);
  return {.qkv = memory + places.qkv, .o = memory + places.o};
}

StepLaunch launch_step(const StepCall& given, void* workspace, cudaStream_t stream) {
  ShortConvCall conv = given.conv;
  if (const cudaError_t error = place_host_indices(conv, workspace, stream); error != cudaSuccess)
    return {error, 0};
  RecurrenceCall recurrence = given.recurrence;
  GatedRmsNormCall norm = given.norm;
  recurrence.read_slots = norm.slots = conv.read_slots;
  if (const cudaError_t error = launch_short_conv(conv, nullptr, stream); error != cudaSuccess)
    return {error, 0};
  if (const cudaError_t error = launch_recurrent(recurrence, {}, nullptr, stream); error != cudaSuccess)
    return {error, 1};
  return {launch_gated_rms_norm(norm, stream), 2};
}

}  // namespace fla::cuda
