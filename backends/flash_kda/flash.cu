#include <cuda.h>
#include <cuda_runtime.h>

#include "backends/flash_kda/combine.cuh"
#include "backends/flash_kda/flash.h"
#include "backends/flash_kda/launch.cuh"
#include "backends/flash_kda/route.h"
#include "backends/flash_kda/segment.cuh"
#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

namespace fla::flash_kda {

namespace {

// ---- Tensor maps

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// From the driver through the runtime: nothing links against libcuda.
Encode encoder() {
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
      function = nullptr;
    }
    return reinterpret_cast<Encode>(function);
  }();
  return encode;
}

/// [B, T, heads, channels] with any strides; a box is `tokens` x 64 channels of one head. Past T and past the
/// channels a box reads zeros and writes nothing.
cudaError_t make_map(CUtensorMap& map, const RecurrenceCall& call, const Rows& rows, int heads, int channels,
                     std::uint32_t tokens = kChunk) {
  const Encode encode = encoder();
  if (!encode) return cudaErrorNotSupported;
  const auto bytes = [](std::int64_t count, std::int64_t step) {
    return static_cast<cuuint64_t>(count > 1 ? 2 * step : 256);
  };
  const std::int64_t batches = planned(call) ? 1 : call.N;
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(channels), static_cast<cuuint64_t>(heads),
                               static_cast<cuuint64_t>(call.T), static_cast<cuuint64_t>(batches)};
  const cuuint64_t strides[3] = {bytes(heads, rows.head), bytes(call.T, rows.token),
                                 bytes(batches, rows.batch)};
  const cuuint32_t box[4] = {64, 1, tokens, 1}, steps[4] = {1, 1, 1, 1};
  const auto type =
      rows.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult result = encode(&map, type, 4, rows.data, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/// Of a head's state, whichever of its axes has neighbours: 64 rows x 32 columns, with zeros past the sizes.
cudaError_t make_map(CUtensorMap& map, const RecurrenceCall& call, const States& states) {
  const Encode encode = encoder();
  if (!encode) return cudaErrorNotSupported;
  const bool keys = states.key == 1;
  const auto bytes = [](std::int64_t count, std::int64_t step) {
    return static_cast<cuuint64_t>(count > 1 ? 4 * step : 256);
  };
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(keys ? call.K : call.V),
                               static_cast<cuuint64_t>(keys ? call.V : call.K),
                               static_cast<cuuint64_t>(call.HV), static_cast<cuuint64_t>(states.slots)};
  const cuuint64_t strides[3] = {bytes(2, keys ? states.value : states.key), bytes(call.HV, states.head),
                                 bytes(states.slots, states.slot)};
  const cuuint32_t box[4] = {32, 64, 1, 1}, steps[4] = {1, 1, 1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, states.data, sizes, strides, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// ---- Launches

__global__ void __launch_bounds__(Combine::threads) combine_kernel(const __grid_constant__ Params p) {
  extern __shared__ std::uint8_t shared[];
  combine(p, (static_cast<Smem>(__cvta_generic_to_shared(shared)) + 1023) & ~1023u);
}
cudaError_t launch_combine(const Launch& launch, const Params& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(combine_kernel, prepared, Combine::threads, Combine::bytes + 1024, launch, params);
}
cudaError_t launch_plan(const Launch& launch, const PlanParams& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(plan_kernel, prepared, kPlanThreads, kPlanShared, launch, params);
}

}  // namespace

Route route_of(const RecurrenceCall& call, int processors, bool deterministic) {
  return cheapest_route(slice_of(call, 0), processors, deterministic);
}

std::size_t workspace(const RecurrenceCall& call, const Route& route) {
  return items_of(call) == 0 ? 0 : workspace_of(call, route, nullptr).bytes;
}

namespace {

cudaError_t launch_slice(const RecurrenceCall& call, Route route, void* workspace, cudaStream_t stream) {
  if (call.V <= kChunk) route.shares = 1;  // one half is all there is
  cudaError_t error = cudaSuccess;
  const bool is_bf16 = call.q.dtype == DType::bf16, by_channel = call.gate_kind == GateKind::channel,
             delta = call.rule == Rule::delta;
  Workspace w = workspace_of(call, route, workspace);
  Params p;
  p.call = with_pool(call);
  for (int keys = 0; keys < 2; ++keys) p.windows[keys] = window_of(call, keys == 0);
  p.schedule = w.schedule;
  p.segments = w.segments;
  p.split = route.shares == 2;
  p.looks = w.segments.length >= kWorthALook;
  p.gate_f32 = call.g.dtype == DType::f32;
  p.bias_rows = has_rows(call.dt_bias);
  if (call.T > 0) {
    const int heads = call.HV / call.group;
    if ((error = make_map(p.q, call, call.q, heads, call.K, kChunk / 2)) != cudaSuccess) return error;
    if ((error = make_map(p.k, call, call.k, heads, call.K, kChunk / 2)) != cudaSuccess) return error;
    if (by_channel && !p.gate_f32 && (error = make_map(p.g, call, call.g, call.HV, call.K)) != cudaSuccess)
      return error;
    if ((error = make_map(p.v, call, call.v, call.HV, call.V)) != cudaSuccess) return error;
    if ((error = make_map(p.o, call, call.o, call.HV, call.V)) != cudaSuccess) return error;
  }
  p.first_by_tma = has_boxes(call.initial_state);
  p.last_by_tma = has_boxes(call.final_state);
  if (p.first_by_tma && (error = make_map(p.first_state, call, call.initial_state)) != cudaSuccess)
    return error;
  if (p.last_by_tma && (error = make_map(p.last_state, call, call.final_state)) != cudaSuccess) return error;
  if ((error = cuda::place_host_indices(p.call, w.indices, stream)) != cudaSuccess) return error;
  w.plan.cu_seqlens = p.call.cu_seqlens;
  Launch next{.stream = stream};  // the first kernel comes after whatever is in the stream
  if (planned(call) || route.depth) {
    next.grid = plan_blocks(call);
    if ((error = launch_plan(next, w.plan)) != cudaSuccess) return error;
    next.early = true;
  }
  const auto forward = [&](int grid, int state_blocks) {
    next.grid = grid;
    p.state_blocks = state_blocks;
    const auto of_type = [&]<Half16 type> {
      constexpr auto channel = GateKind::channel, token = GateKind::token;
      if (delta)
        return by_channel ? launch_forward<type, channel, Rule::delta>(next, p)
                          : launch_forward<type, token, Rule::delta>(next, p);
      return by_channel ? launch_forward<type, channel, Rule::additive>(next, p)
                        : launch_forward<type, token, Rule::additive>(next, p);
    };
    const cudaError_t result =
        is_bf16 ? of_type.template operator()<Half16::bf16>() : of_type.template operator()<Half16::f16>();
    next.early = true;
    return result;
  };
  if (route.together()) {
    next.resident = true;
    return forward(route.state_blocks() + route.prep_blocks, route.state_blocks());
  }
  if (call.T > 0) {
    const std::int64_t tasks = chunks_at_most(call) * call.HV;
    if ((error = forward(static_cast<int>(std::min<std::int64_t>(route.prep_blocks, tasks)), 0)) !=
        cudaSuccess)
      return error;
  }
  if (route.segments > 1) {
    next.grid = parts_of(items_of(call), route.segments);
    const auto launch =
        is_bf16 ? delta ? launch_part<Half16::bf16, Rule::delta> : launch_part<Half16::bf16, Rule::additive>
        : delta ? launch_part<Half16::f16, Rule::delta>
                : launch_part<Half16::f16, Rule::additive>;
    error = launch(next, p);
    if (error != cudaSuccess) return error;
    next.grid = route.segments > 2 ? Combine::blocks * items_of(call) : 0;
    if ((error = launch_combine(next, p)) != cudaSuccess) return error;
  }
  // One CTA a segment, or two: schedule.streams is what a CTA skips to find its next one.
  p.schedule.streams = route.streams * route.segments;
  return forward(route.state_blocks(), route.state_blocks());
}

}  // namespace

cudaError_t launch(const RecurrenceCall& call, const Route& route, void* workspace, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  for (std::int32_t slice = 0; slice < slices_of(call) && items_of(call) > 0 && error == cudaSuccess; ++slice)
    error = launch_slice(slice_of(call, slice), route, workspace, stream);
  return error;
}

}  // namespace fla::flash_kda
