#include "fla/ops/kda/cuda/host_indices.cuh"
#include "fla/ops/kda/cuda/padded_keys.h"
#include "fla/ops/kda/cuda/states.cuh"
#include "fla/ops/kda/cuda/tokens.cuh"

/// The recurrence as it is written down, token by token: any sizes, any strides, any gate.
///
///     block   one head of one sequence, 32 of its values; 128 threads, 8 tokens at a time
///     thread  one value, every fourth group of four keys; its part of the state stays in registers
///
///              keys  0..3  4..7  8..11  12..15  16..19 ..        per token, for each value:
///     value 0        p=0   p=1   p=2    p=3     p=0    ..          s *= a
///     value 1        p=0   ..        (4 lanes a value,             u = beta (v - sum k s)       sum over p
///     ..                              8 values a warp)             s += k u,  o = sum q s       sum over p
///
///     shared memory   q k a [8 tokens][KP + 8], v o [8][32]
///
/// The tokens' vectors are made by the whole block, then 8 steps run without a barrier.
namespace fla::cuda {
namespace {

constexpr int kTokens = 8, kValues = 32;

template <int KP>
__global__ void __launch_bounds__(kThreads, KP > 128 ? 2 : 4)
    recurrent(const __grid_constant__ RecurrenceCall call) {
  __shared__ alignas(16) float q[kTokens * kRow<KP>], k[kTokens * kRow<KP>], a[kTokens * kRow<KP>];
  __shared__ float v[kTokens][kValues], o[kTokens][kValues], beta[kTokens];

  const int blocks = (call.V + kValues - 1) / kValues;
  const int first_value = static_cast<int>(blockIdx.x % blocks) * kValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const int column = threadIdx.x / 4, part = threadIdx.x % 4;
  const Sequence sequence = sequence_of(call, n);
  const Slots slots = slots_of(call, n);
  const bool skip = slots.read < 0;

  // Of element i of the thread's state.
  const auto key = [&](int i) { return i / 4 * 16 + part * 4 + i % 4; };
  const auto value = [&](int) { return first_value + column; };
  const auto in_state = [&](int i) { return value(i) < call.V && key(i) < call.K; };
  float s[KP / 4];
  if (!skip) load_state(call.initial_state, slots.read, head, key, value, in_state, s);

  TokenLoader<kTokens, KP, Decays::plain> tokens(call, head);
  for (std::int64_t t0 = sequence.begin; t0 < sequence.end; t0 += kTokens) {
    const int count = static_cast<int>(min(sequence.end - t0, std::int64_t{kTokens}));
    const auto at = [&](const Rows& rows, int i) {
      return sequence.batch * rows.batch + (t0 + i / kValues) * rows.token + head * rows.head +
             (first_value + i % kValues) * rows.channel;
    };
    if (!skip) {
      constexpr int kEach = kTokens * kValues / kThreads;  // values that a thread brings
      std::uint32_t v_bits[kEach];
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const int i = r * kThreads + threadIdx.x;
        const bool there = i / kValues < count && first_value + i % kValues < call.V;
        v_bits[r] = there ? load_bits(call.v.data, is_16_bit(call.v.dtype), at(call.v, i)) : 0;
      }
      tokens.load(sequence.batch, t0, count, q, k, a, beta);
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const int i = r * kThreads + threadIdx.x;
        v[i / kValues][i % kValues] = to_float(v_bits[r], call.v.dtype);
      }
      __syncthreads();
      for (int t = 0; t < count; ++t) {
        const auto four = [&](const float* tile, int i) {
          return *reinterpret_cast<const float4*>(tile + t * kRow<KP> + key(i));
        };
        float ks = 0;
#pragma unroll
        for (int i = 0; i < KP / 4; i += 4) {
          const float4 ai = four(a, i), ki = four(k, i);
          s[i] *= ai.x, s[i + 1] *= ai.y, s[i + 2] *= ai.z, s[i + 3] *= ai.w;
          ks += ki.x * s[i] + ki.y * s[i + 1] + ki.z * s[i + 2] + ki.w * s[i + 3];
        }
        const float u = beta[t] * (v[t][column] - reduce<4>(ks));
        float qs = 0;
#pragma unroll
        for (int i = 0; i < KP / 4; i += 4) {
          const float4 ki = four(k, i), qi = four(q, i);
          s[i] += ki.x * u, s[i + 1] += ki.y * u, s[i + 2] += ki.z * u, s[i + 3] += ki.w * u;
          qs += qi.x * s[i] + qi.y * s[i + 1] + qi.z * s[i + 2] + qi.w * s[i + 3];
        }
        qs = reduce<4>(qs);
        if (part == 0) o[t][column] = qs;
      }
      __syncthreads();
    }
    for (int i = threadIdx.x; i < count * kValues; i += kThreads) {
      if (first_value + i % kValues >= call.V) continue;
      store(call.o.data, call.o.dtype, at(call.o, i), skip ? 0 : o[i / kValues][i % kValues]);
    }
  }

  if (!skip) store_state(call.final_state, slots.write, head, key, value, in_state, s);
}

}  // namespace

std::size_t recurrent_workspace(const RecurrenceCall& call) { return index_workspace(call); }

cudaError_t launch_recurrent(const RecurrenceCall& given, void* workspace, cudaStream_t stream) {
  RecurrenceCall call = given;
  if (const cudaError_t error = place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  const std::int64_t blocks = call.N * call.HV * ((call.V + kValues - 1) / kValues);
  return with_padded_keys(call.K, [&]<int KP>(Constant<KP>) {
    return launch_blocks<recurrent<KP>, 0>(blocks, kThreads, stream, call);
  });
}

}  // namespace fla::cuda
