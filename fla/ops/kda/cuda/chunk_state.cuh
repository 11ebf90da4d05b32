#pragma once

#include <cuda_pipeline.h>
#include <math_constants.h>

#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/kda/cuda/chunk.cuh"
#include "fla/ops/kda/cuda/tokens.cuh"

/// Carries the state of one head of one sequence through its chunks, for 32 values.
///
///     warp (slab, half)   values 16 slab .. 16 slab + 15, keys of that half
///                         S^T [16 values x KP / 2 keys] in registers, as the tensor core leaves it
///
///     per chunk of C tokens                                        operand in shared memory, [n][k] rows
///     1  Y^T = V^T - S^T K~^T     O^T = S^T Q~^T                   K~, Q~ [C][KP + 8]
///        each half has sums over its keys; they meet in shared memory
///     2  U^T = Y^T T2^T           both halves                      T2     [C][C + 8]
///        O^T += U^T M^T           each half two tiles of 8 tokens  M      [C][C + 8]
///     3  S^T = S^T diag(gamma) + U^T Kr                            Kr^T   [KP][C + 8]
///
/// Causality: where a value is not finite at some token, U is not from there on, and a zero of T2 or M times
/// that is NaN for the tokens before. A warp that finds such a U takes what is not finite for zeros and makes
/// O and S of that value NaN from its first such token on: the same outputs as the recurrence's are finite.
///
/// Every left operand is a state or a result of the same warp and never leaves its registers (mma.cuh).
/// Shared memory holds one chunk, and is still never waited for long: while 2 and 3 run, the next chunk's K~
/// and Q~ are copied over the ones that 1 is done with, and while its 1 runs, the rest.
///
///     copies   | K~ Q~ (0) | rest (0) |  K~ Q~ (1)  | rest (1) |  K~ Q~ (2)  |
///     products |           |  1 (0)   | 2 (0), 3 (0)|  1 (1)   | 2 (1), 3 (1)|
namespace fla::cuda {

inline constexpr int kSlabs = 2, kSlabValues = 16, kStateValues = kSlabs * kSlabValues;
inline constexpr int kStateThreads = kSlabs * 2 * 32;

template <int KP>
struct StateMemory {
  static constexpr int C = chunk_size(KP), kPairRow = C + 8, kSums = C / 8 * 4;
  alignas(16) float K[C * kRow<KP>], Q[C * kRow<KP>];
  alignas(16) float Kr[KP * kPairRow];
  alignas(16) float M[C * kPairRow], T2[C * kPairRow];
  alignas(16) float gamma[KP];
  float y[kSlabs][2][kSums][32], o[kSlabs][kSums][32];  // sums of one half for the other, a column a lane
};

/// Copies `rows` rows of `width` floats (powers of two), four floats at a time, to rows that are `row` floats
/// apart.
template <int rows, int width, int row>
__device__ void copy_rows(const float* source, float* target) {
  constexpr int kOneTime = kStateThreads * 4, kTimes = (rows * width + kOneTime - 1) / kOneTime;
  static_assert(kOneTime % width == 0);
  const int first = threadIdx.x * 4;
  source += first, target += first / width * row + first % width;
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    if (rows * width % kOneTime == 0 || first + i * kOneTime < rows * width) {
      __pipeline_memcpy_async(target + i * (kOneTime / width) * row, source + i * kOneTime, 16);
    }
  }
}

/// Copies [C / 4][KP][4] to rows of C floats.
template <int C, int KP, int row>
__device__ void copy_fours(const float* source, float* target) {
  constexpr int kUnits = C / 4 * KP;
#pragma unroll
  for (int i = 0; i < (kUnits + kStateThreads - 1) / kStateThreads; ++i) {
    const int unit = i * kStateThreads + static_cast<int>(threadIdx.x);
    if (kUnits % kStateThreads == 0 || unit < kUnits) {
      __pipeline_memcpy_async(target + unit % KP * row + unit / KP * 4, source + unit * 4, 16);
    }
  }
}

template <int KP>
__device__ void copy_tokens(StateMemory<KP>& memory, const ChunkOperators<KP>& from) {
  constexpr int C = chunk_size(KP);
  copy_rows<C, KP, kRow<KP>>(&from.K[0][0], memory.K);
  copy_rows<C, KP, kRow<KP>>(&from.Q[0][0], memory.Q);
}

template <int KP>
__device__ void copy_rest(StateMemory<KP>& memory, const ChunkOperators<KP>& from) {
  constexpr int C = chunk_size(KP), kPairRow = StateMemory<KP>::kPairRow;
  copy_rows<C, C, kPairRow>(&from.T2[0][0], memory.T2);
  copy_rows<C, C, kPairRow>(&from.M[0][0], memory.M);
  copy_fours<C, KP, kPairRow>(&from.Kr[0][0][0], memory.Kr);
  copy_rows<1, KP, KP>(from.gamma, memory.gamma);
}

/// d[n] += A (rows 8 n .. of `rows`, columns `column` ..)^T for every n from `first` on.
template <int count>
__device__ void multiply_rows(Fragment (&d)[count], const OperandA& a, const float* rows, int row_stride,
                              int column, int first = 0) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  float2 b[count];
#pragma unroll
  for (int n = 0; n < count; ++n) {
    if (n >= first) b[n] = *reinterpret_cast<const float2*>(rows + (8 * n + g) * row_stride + column + 2 * p);
  }
  multiply(d, a, b, first);
}

/// Whether an element of any lane is NaN or infinite: zero times that is NaN.
template <int count>
__device__ bool any_not_finite(const Fragment (&x)[count]) {
  float sum = 0;
#pragma unroll
  for (int n = 0; n < count; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum = __fmaf_rn(x[n][i], 0.0f, sum);
  }
  return __any_sync(~0u, sum != 0);
}

/// Puts zeros where x is not finite, [values][tokens], and the first token of each of the lane's two values
/// where that is so into `first`, which holds such a token already or a larger one.
template <int count>
__device__ void replace_not_finite(Fragment (&x)[count], int (&first)[2]) {
#pragma unroll
  for (int n = 0; n < count; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (isfinite(x[n][i])) continue;
      first[i / 2] = min(first[i / 2], 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2);
      x[n][i] = 0;
    }
  }
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    first[v] = min(first[v], __shfl_xor_sync(~0u, first[v], 1));
    first[v] = min(first[v], __shfl_xor_sync(~0u, first[v], 2));
  }
}

template <int KP>
__global__ void __launch_bounds__(kStateThreads)
    chunk_state(const __grid_constant__ RecurrenceCall call, const ChunkOperators<KP>* all_operators) {
  constexpr int C = chunk_size(KP), kTiles = C / 8, kKeyTiles = KP / 16;
  constexpr int kPairRow = StateMemory<KP>::kPairRow;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<StateMemory<KP>*>(shared);

  const int blocks = (call.V + kStateValues - 1) / kStateValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const int lane = threadIdx.x % 32, slab = threadIdx.x / 32 % kSlabs, half = threadIdx.x / (32 * kSlabs);
  const int g = lane / 4, p = lane % 4, first_key = half * (KP / 2);
  const int first_value = static_cast<int>(blockIdx.x % blocks) * kStateValues + slab * kSlabValues;
  const bool working = first_value < call.V;  // the same for all lanes of a warp
  const Sequence sequence = sequence_of(call, n);
  const Slots slots = slots_of(call, n);

  // Element i of a fragment: value, and column within its 8.
  const auto value = [&](int i) { return first_value + g + i / 2 * 8; };
  const auto column = [&](int i) { return 2 * p + i % 2; };
  const auto token_offset = [&](const Rows& rows, std::int64_t t, int v) {
    return sequence.batch * rows.batch + t * rows.token + head * rows.head + v * rows.channel;
  };

  if (slots.read < 0) {
    for (std::int64_t t = sequence.begin + 8 * half + g; t < sequence.end; t += 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int v = first_value + 4 * p + i;
        if (v < call.V) store(call.o.data, call.o.dtype, token_offset(call.o, t, v), 0);
      }
    }
    return;
  }

  Fragment s[kKeyTiles];
  // Element i of all of them.
  const auto key = [&](int i) { return first_key + i / 4 * 8 + column(i % 4); };
  const auto state_value = [&](int i) { return value(i % 4); };
  const auto in_state = [&](int i) { return state_value(i) < call.V && key(i) < call.K; };
  {
    float elements[4 * kKeyTiles];
    load_state(call.initial_state, slots.read, head, key, state_value, in_state, elements);
#pragma unroll
    for (int i = 0; i < 4 * kKeyTiles; ++i) s[i / 4][i % 4] = elements[i];
  }

  const ChunkOperators<KP>* operators = all_operators + chunk_place<C>(call, sequence, n, 0) * call.HV + head;
  if (sequence.begin < sequence.end) {
    copy_tokens(memory, *operators);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  for (std::int64_t t0 = sequence.begin; t0 < sequence.end; t0 += C, operators += call.HV) {
    const int count = static_cast<int>(min(sequence.end - t0, std::int64_t{C}));
    const auto there = [&](int tile, int i) { return 8 * tile + column(i) < count && value(i) < call.V; };
    // Element i of tile `tile`, from the first one of the lane's: value g, token 2 p.
    const auto step = [&](const Rows& rows, int tile, int i) {
      return (8 * tile + i % 2) * rows.token + i / 2 * 8 * rows.channel;
    };
    const auto half_of = [](int tile) { return tile == 0 || tile == 3 ? 0 : 1; };  // that has this tile of O
    copy_rest(memory, *operators);
    __pipeline_commit();

    std::uint32_t v_bits[kTiles][4];
    Fragment y[kTiles] = {}, o[kTiles] = {};
    if (working) {
      const auto fetch = [&]<class T>(T*) {
        const T* const first =
            static_cast<const T*>(call.v.data) + token_offset(call.v, t0 + column(0), value(0));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int i = 0; i < 4; ++i) v_bits[tile][i] = there(tile, i) ? first[step(call.v, tile, i)] : 0;
        }
      };
      if (is_16_bit(call.v.dtype))
        fetch(static_cast<std::uint16_t*>(nullptr));
      else
        fetch(static_cast<std::uint32_t*>(nullptr));
#pragma unroll
      for (int kt = 0; kt < kKeyTiles; ++kt) {
        const OperandA a(s[kt]);
        multiply_rows(y, a, memory.K, kRow<KP>, first_key + 8 * kt);
        multiply_rows(o, a, memory.Q, kRow<KP>, first_key + 8 * kt);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          memory.y[slab][half][4 * tile + i][lane] = y[tile][i];
          if (half != half_of(tile)) memory.o[slab][4 * tile + i][lane] = o[tile][i];
        }
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // K~ and Q~ are done with, the rest has come
    if (t0 + C < sequence.end) copy_tokens(memory, operators[call.HV]);
    __pipeline_commit();

    if (working) {
      Fragment u[kTiles] = {};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&sums)[2][4 * kTiles][32] =
              memory.y[slab];  // in the same order for both halves: the same U
          y[tile][i] = to_float(v_bits[tile][i], call.v.dtype) -
                       (sums[0][4 * tile + i][lane] + sums[1][4 * tile + i][lane]);
        }
      }
      const auto make_u = [&] {
#pragma unroll
        for (int from = 0; from < kTiles; ++from) {
          multiply_rows(u, OperandA(y[from]), memory.T2, kPairRow, 8 * from, from);
        }
      };
      make_u();
      int spoilt[2] = {C, C};  // the first token of values g and g + 8 that is not finite
      const bool rare = any_not_finite(u);
      if (rare) {
        replace_not_finite(y, spoilt);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int i = 0; i < 4; ++i) u[tile][i] = 0;
        }
        make_u();
        replace_not_finite(u, spoilt);
      }
      constexpr int kMine = kTiles / 2;  // tiles of O of this half
      const auto mine = [&](int j) { return half == 0 ? j * (kTiles - 1) : 1 + j; };
      Fragment o_mine[kMine];
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o_mine[j][i] =
              (half == 0 ? o[j * (kTiles - 1)][i] : o[1 + j][i]) + memory.o[slab][4 * mine(j) + i][lane];
        }
      }
#pragma unroll
      for (int from = 0; from < kTiles; ++from) {
        float2 b[kMine];
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          b[j] = *reinterpret_cast<const float2*>(memory.M + (8 * mine(j) + g) * kPairRow + 8 * from + 2 * p);
        }
        multiply(o_mine, OperandA(u[from]), b);
      }
      with_type(call.o.dtype, [&]<class T>(T*) {
        T* const first = static_cast<T*>(call.o.data) + token_offset(call.o, t0 + column(0), value(0));
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (rare && 8 * mine(j) + column(i) >= spoilt[i / 2]) o_mine[j][i] = CUDART_NAN_F;
            if (there(mine(j), i)) assign(first[step(call.o, mine(j), i)], o_mine[j][i]);
          }
        }
      });
      // The sum over the chunk is added to the state outside of the tensor core, which rounds towards zero:
      // over thousands of tokens that would wear the state away. Few key tiles at a time, for the registers'
      // sake.
      constexpr int kAtOnce = kKeyTiles < 8 ? kKeyTiles : 8;
#pragma unroll
      for (int first = 0; first < kKeyTiles; first += kAtOnce) {
        Fragment d[kAtOnce] = {};
#pragma unroll
        for (int from = 0; from < kTiles; ++from) {
          multiply_rows(d, OperandA(u[from]), memory.Kr + (first_key + 8 * first) * kPairRow, kPairRow,
                        8 * from);
        }
#pragma unroll
        for (int kt = 0; kt < kAtOnce; ++kt) {
          const float2 gamma =
              *reinterpret_cast<const float2*>(memory.gamma + first_key + 8 * (first + kt) + 2 * p);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            s[first + kt][i] = s[first + kt][i] * (i % 2 ? gamma.y : gamma.x) + d[kt][i];
        }
      }
      if (rare) {
#pragma unroll
        for (int i = 0; i < 4 * kKeyTiles; ++i) {
          if (spoilt[i % 4 / 2] < C) s[i / 4][i % 4] = CUDART_NAN_F;
        }
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the rest is done with, the next K~ and Q~ have come
  }

  float elements[4 * kKeyTiles];
#pragma unroll
  for (int i = 0; i < 4 * kKeyTiles; ++i) elements[i] = s[i / 4][i % 4];
  store_state(call.final_state, slots.write, head, key, state_value, in_state, elements);
}

}  // namespace fla::cuda
