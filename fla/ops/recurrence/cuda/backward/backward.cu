#include <algorithm>

#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/backward/launch.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// The entry of the backward kernels. With `normalize`, o = x / d: x is the plain output, d = scale q^T z +
/// 1e-10 and z the sum of the keys so far. z is what a state column holds whose values are all 1. So the
/// gradients are those of the plain call with that column added: E = do / d for its other columns, -E^T x / d
/// for this one.
namespace fla::cuda {
namespace {

/// There are only kernels for 128 and for 256 keys, to keep compile time down.
template <class Body>
auto with_form(const RecurrenceCall& call, Body&& body) {
  if (call.rule == Rule::low_rank)
    return call.K <= 128 ? body.template operator()<128, Rule::low_rank>()
                         : body.template operator()<256, Rule::low_rank>();
  const auto with_rule = [&]<int KP>(std::integral_constant<int, KP>) {
    return call.rule == Rule::delta ? body.template operator()<KP, Rule::delta>()
                                    : body.template operator()<KP, Rule::additive>();
  };
  return call.K <= 128 ? with_rule(std::integral_constant<int, 128>{})
                       : with_rule(std::integral_constant<int, 256>{});
}

/// f32 rows in the workspace: plain outputs x, divisors d, and upstream gradients E with the added column's.
struct Quotients {
  std::int64_t tokens;
  float *one, *x, *d, *E;
  std::size_t bytes = 0;

  Quotients(const RecurrenceCall& call, char* memory) : tokens(call.T * (call.cu_seqlens.data ? 1 : call.N)) {
    if (!call.normalize) return;
    MemoryParts cut{memory};
    const std::int64_t rows = tokens * call.HV;
    cut.next(x, rows * call.V), cut.next(d, rows), cut.next(E, rows * (call.V + 1)), cut.next(one, 1);
    bytes = cut.bytes;
  }
  static Rows rows(const RecurrenceCall& call, float* data, std::int64_t columns) {
    const std::int64_t token = call.HV * columns;
    return {.data = data, .batch = call.T * token, .token = token, .head = columns, .channel = 1};
  }
};

__global__ void write_one(float* one) { *one = 1; }

/// A warp has a token of a head.
__global__ void __launch_bounds__(kThreads)
    divide(const __grid_constant__ RecurrenceCall call, const __grid_constant__ Rows upstream,
           const __grid_constant__ Quotients quotients) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= quotients.tokens * call.HV) return;
  const std::int64_t token = row / call.HV, head = row % call.HV;
  const std::int64_t at =
      token / call.T * upstream.batch + token % call.T * upstream.token + head * upstream.head;
  const float d = quotients.d[row] + 1e-10f;
  float* const E = quotients.E + row * (call.V + 1);
  float sum = 0;
  for (int v = threadIdx.x % 32; v < call.V; v += 32) {
    const float e = load(upstream.data, upstream.dtype, at + v * upstream.channel) / d;
    E[v] = e;
    sum += e * quotients.x[row * call.V + v];
  }
  sum = reduce(sum);
  if (threadIdx.x % 32 == 0) E[call.V] = -sum / d;
}

cudaError_t make_quotients(const BackwardCall& back, const Quotients& quotients, void* workspace,
                           cudaStream_t stream) {
  if (const cudaError_t error = launch_blocks<write_one, 0>(1, 1, stream, quotients.one);
      error != cudaSuccess)
    return error;
  RecurrenceCall plain = back.call;
  plain.normalize = false;
  plain.o = Quotients::rows(plain, quotients.x, plain.V);
  if (const cudaError_t error = launch_chunk(plain, {}, workspace, stream); error != cudaSuccess)
    return error;
  RecurrenceCall keys = plain;
  keys.V = 1;
  keys.v = {.data = quotients.one};
  keys.initial_state = {.slots = common::kAnySlot};
  keys.o = Quotients::rows(keys, quotients.d, 1);
  if (const cudaError_t error = launch_chunk(keys, {}, workspace, stream); error != cudaSuccess) return error;
  const std::int64_t blocks = (quotients.tokens * back.call.HV + kWarps - 1) / kWarps;
  return launch_blocks<divide, 0>(blocks, kThreads, stream, back.call, back.do_, quotients);
}

}  // namespace

std::size_t backward_workspace(const BackwardCall& back, std::int64_t window) {
  const std::size_t kernels =
      with_form(back.call, [&]<int KP, Rule rule>() { return backward_memory<KP, rule>(back, window); });
  const std::size_t forward = back.call.normalize ? chunk_workspace(back.call) : 0;
  return index_workspace(back.call) + Quotients(back.call, nullptr).bytes + std::max(kernels, forward);
}

cudaError_t launch_backward(const BackwardCall& given, void* workspace, cudaStream_t stream,
                            std::int64_t window) {
  BackwardCall back = given;
  char* memory = static_cast<char*>(workspace) + index_workspace(back.call);
  if (const cudaError_t error = place_host_indices(back.call, workspace, stream); error != cudaSuccess)
    return error;
  const Quotients quotients(back.call, memory);
  memory += quotients.bytes;
  if (back.call.normalize) {
    if (const cudaError_t error = make_quotients(back, quotients, memory, stream); error != cudaSuccess)
      return error;
    back.do_ = Quotients::rows(back.call, quotients.E, back.call.V + 1);
  }
  return with_form(back.call, [&]<int KP, Rule rule>() {
    return launch_backward_kernels<KP, rule>(back, memory, stream, window);
  });
}

}  // namespace fla::cuda
