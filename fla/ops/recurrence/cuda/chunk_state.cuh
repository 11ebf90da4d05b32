#pragma once

#include <math_constants.h>

#include "fla/ops/common/cuda/copies.cuh"
#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/recurrence/cuda/chunk.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// Carries the state of one head of one sequence through its chunks, for 32 values.
///
///     warp (slab, part)   values 16 slab .. 16 slab + 15, keys of that quarter (with a decay a channel and
///                         Rule::delta of that half)
///                         S^T [16 values x KP / 4 keys] in registers, as the tensor core leaves it
///
///     per chunk of C tokens                                        operand in shared memory, [n][k] rows
///     1  Y^T = V^T - S^T K~^T     O^T = S^T Q~^T                   K~, Q~ [C][KP + 8]
///        each part has sums over its keys; they meet in shared memory
///     2  U^T = Y^T T2^T           all parts                        T2     [C][C + 8]
///        O^T += U^T M^T           a part a tile of 8 tokens        M      [C][C + 8]
///     3  S^T = S^T diag(gamma) + U^T Kr                            Kr^T   [KP][C + 8]
///
/// With Rule::additive U is V. Where a token has one decay, k and q stand for K~, Q~ and Kr: sums over keys
/// are multiplied by 2^G_i when they meet, U by 2^(G_last - G_i) before 3, which reads columns of k.
///
/// Causality: where a value is not finite at some token, U is not from there on, and a zero of T2 or M times
/// that is NaN for the tokens before. A warp that finds such a U takes what is not finite for zeros and makes
/// O and S of that value NaN from its first such token on: the same outputs as the recurrence's are finite.
///
/// Every left operand is a state or a result of the same warp and never leaves its registers (mma.cuh).
///
/// With a decay a channel and Rule::delta, shared memory holds one chunk, and is still never waited for long:
/// while 2 and 3 run, the next chunk's K~ and Q~ are copied over the ones that 1 is done with, and while its
/// 1 runs, the rest.
///
///     copies   | K~ Q~ (0) | rest (0) |  K~ Q~ (1)  | rest (1) |  K~ Q~ (2)  |
///     products |           |  1 (0)   | 2 (0), 3 (0)|  1 (1)   | 2 (1), 3 (1)|
///
/// The other forms keep two buffers of what 2 and 3 read: the next chunk is copied while this one is
/// computed.
///
/// Without outputs only the state is carried: Q~, M and the products with them are left out.
namespace fla::cuda {

inline constexpr int kSlabs = 2, kSlabValues = 16, kStateValues = kSlabs * kSlabValues;

template <int KP, Decay decay, Rule rule>
struct StateMemory {
  static constexpr bool kChannels = decay == Decay::channel, kDelta = rule == Rule::delta;
  static constexpr bool kAhead = !(kChannels && kDelta);  ///< room for two chunks
  static constexpr int kParts = kAhead ? 4 : 2, kThreads = kSlabs * kParts * 32;
  static constexpr int C = chunk_size(KP), kPairRow = C + (kChannels ? 8 : 4), kSums = C / 8 * 4;
  using Keys = float[C * kRow<KP>];
  using Pairs = float[C * kPairRow];

  struct Rest {
    Maybe<!kChannels, Keys> K;
    Maybe<kChannels, float[KP * kPairRow]> Kr;
    Maybe<true, Pairs> M;
    Maybe<kDelta, Pairs> T2;
    Maybe<kChannels, float[KP]> gamma;
    Maybe<!kChannels, float[2][C]> front_and_back;
  };
  Maybe<kChannels && kDelta, Keys> K;
  Maybe<true, Keys> Q;
  Rest rest[kAhead ? 2 : 1];
  // Sums of one part for the others, a column a lane.
  Maybe<kDelta, float[kSlabs][kParts][kSums][32]> y;
  float o[kSlabs][kParts - 1][kSums][32];
  // With normalize: the sum of the keys so far, and what outputs are divided by.
  Maybe<!kChannels && !kDelta, float[KP]> z;
  Maybe<!kChannels && !kDelta, float[C]> divisors;
};

/// Copies [C / 4][KP][4] to rows of C floats.
template <int threads, int C, int KP, int row>
__device__ void copy_fours(const float* source, float* target) {
  constexpr int kUnits = C / 4 * KP;
#pragma unroll
  for (int i = 0; i < (kUnits + threads - 1) / threads; ++i) {
    const int unit = i * threads + static_cast<int>(threadIdx.x);
    if (kUnits % threads == 0 || unit < kUnits) {
      __pipeline_memcpy_async(target + unit % KP * row + unit / KP * 4, source + unit * 4, 16);
    }
  }
}

/// The copies of a head's chunks, one after another, by all threads of a block.
template <int KP, Decay decay, Rule rule, bool outputs>
struct ChunkCopies {
  using Memory = StateMemory<KP, decay, rule>;
  static constexpr int C = chunk_size(KP), kThreads = Memory::kThreads, kPairRow = Memory::kPairRow;
  const ChunkOperators<KP, decay, rule>* operators;
  const ChunkKeys<KP>* chunk_keys;
  std::int64_t operators_step, keys_step;

  __device__ ChunkCopies(const RecurrenceCall& call, const ChunkWorkspace<KP, decay, rule>& from,
                         std::int64_t place, int head)
      : operators(from.operators + place * call.HV + head),
        chunk_keys(from.keys + place * (call.HV / call.group) + head / call.group),
        operators_step(call.HV),
        keys_step(call.HV / call.group) {}

  __device__ void next() { operators += operators_step, chunk_keys += keys_step; }

  __device__ void keys(typename Memory::Keys& to) const {
    if constexpr (Memory::kChannels)
      rows(operators->K.at, to);
    else
      rows(chunk_keys->K, to);
  }
  __device__ void queries(typename Memory::Keys& to) const {
    if constexpr (!outputs)
      return;
    else if constexpr (Memory::kChannels)
      rows(operators->Q.at, to);
    else
      rows(chunk_keys->Q, to);
  }
  __device__ void rest(typename Memory::Rest& to) const {
    if constexpr (Memory::kDelta) copy_rows<kThreads, C, C, kPairRow>(&operators->T2.at[0][0], to.T2.at);
    if constexpr (outputs) copy_rows<kThreads, C, C, kPairRow>(&operators->M.at[0][0], to.M.at);
    if constexpr (Memory::kChannels) {
      copy_fours<kThreads, C, KP, kPairRow>(&operators->Kr.at[0][0][0], to.Kr.at);
      copy_rows<kThreads, 1, KP, KP>(operators->gamma.at, to.gamma.at);
    } else {
      keys(to.K.at);
      copy_rows<kThreads, 2, C, C>(&operators->front_and_back.at[0][0], &to.front_and_back.at[0][0]);
    }
  }

 private:
  __device__ static void rows(const KeyRows<KP>& from, typename Memory::Keys& to) {
    copy_rows<kThreads, C, KP, kRow<KP>>(&from[0][0], to);
  }
};

/// Whether an element of any lane is NaN or infinite: zero times that is NaN.
template <int count>
__device__ bool any_not_finite(const Fragment (&x)[count]) {
  float sums[4] = {};
#pragma unroll
  for (int n = 0; n < count; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = __fmaf_rn(x[n][i], 0.0f, sums[i]);
  }
  return __any_sync(~0u, (sums[0] + sums[1]) + (sums[2] + sums[3]) != 0);
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

/// What normalize divides the outputs of a chunk by: q^T (z + the keys up to there) + 1e-10, four lanes a
/// token. M has the products with the chunk's own keys.
template <int KP, class Memory>
__device__ void make_divisors(Memory& memory, const float* M) {
  constexpr int C = Memory::C;
  const int t = threadIdx.x / 4, p = threadIdx.x % 4;
  float sum = 0;
  if (t < C) {
    for (int i = p; i < KP; i += 4) sum += memory.Q.at[t * kRow<KP> + i] * memory.z.at[i];
    for (int j = p; j <= t; j += 4) sum += M[t * Memory::kPairRow + j];
  }
  sum = reduce<4>(sum);
  if (t < C && p == 0) memory.divisors.at[t] = sum + 1e-10f;
}

template <int KP, class Memory>
__device__ void add_keys(Memory& memory, const float* K) {
  for (int i = threadIdx.x; i < KP; i += Memory::kThreads) {
    float sum = 0;
    for (int t = 0; t < Memory::C; ++t) sum += K[t * kRow<KP> + i];
    memory.z.at[i] += sum;
  }
}

template <int KP, Decay decay, Rule rule, bool outputs>
__global__ void __launch_bounds__(StateMemory<KP, decay, rule>::kThreads)
    chunk_state(const __grid_constant__ RecurrenceCall call, const ChunkWorkspace<KP, decay, rule> workspace,
                const __grid_constant__ Checkpoints checkpoints) {
  using Memory = StateMemory<KP, decay, rule>;
  constexpr int C = chunk_size(KP), kTiles = C / 8, kPairRow = Memory::kPairRow;
  constexpr int kParts = Memory::kParts, kKeys = KP / kParts, kKeyTiles = kKeys / 8;
  constexpr bool kChannels = Memory::kChannels, kDelta = Memory::kDelta, kAhead = Memory::kAhead;
  constexpr bool kMayNormalize = outputs && !kChannels && !kDelta;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);

  const int blocks = (call.V + kStateValues - 1) / kStateValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const int lane = threadIdx.x % 32, slab = threadIdx.x / 32 % kSlabs, part = threadIdx.x / (32 * kSlabs);
  const int g = lane / 4, p = lane % 4, first_key = part * kKeys;
  const int first_value = static_cast<int>(blockIdx.x % blocks) * kStateValues + slab * kSlabValues;
  const bool working = first_value < call.V;  // the same for all lanes of a warp
  const Sequence sequence = sequence_of(call, n);
  const Slots slots = slots_of(call, n);

  // Element i of a fragment: value, and column within its 8. Rows g and g + 8 are neighbouring values, so
  // that a lane may read and write two at once.
  const auto value = [&](int i) { return first_value + 2 * g + i / 2; };
  const auto column = [&](int i) { return 2 * p + i % 2; };
  const auto token_offset = [&](const Rows& rows, std::int64_t t, int v) {
    return sequence.batch * rows.batch + t * rows.token + head * rows.head + v * rows.channel;
  };

  if (slots.read < 0) {
    for (std::int64_t t = sequence.begin + 8 * part + g; outputs && t < sequence.end; t += 8 * kParts) {
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

  // The lane's elements of V^T for tokens t0 .. t0 + C - 1: element i is token 8 (i / 4) + 2 p + i % 2, value
  // 2 g + i % 4 / 2. Where v_pairs says so, word i / 2 has both values of a token.
  std::uint32_t v_bits[4 * kTiles];
  bool v_pairs = false;
  const bool whole_slab = first_value + kSlabValues <= call.V;  // the same for all lanes of a warp
  const auto fetch_values = [&](std::int64_t t0) {
    const auto fetch = [&]<class T>(T*) {
      const T* at = static_cast<const T*>(call.v.data) + token_offset(call.v, t0 + column(0), value(0));
      const std::int64_t token = call.v.token;
      const bool whole = whole_slab && t0 + C <= sequence.end;
      v_pairs = whole && call.v.packed && sizeof(T) == 2;
      if (v_pairs) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile, at += 7 * token) {
          v_bits[2 * tile] = *reinterpret_cast<const std::uint32_t*>(at);
          at += token;
          v_bits[2 * tile + 1] = *reinterpret_cast<const std::uint32_t*>(at);
        }
        return;
      }
      const auto element = [&](int i) {
        return at[(i / 4 * 8 + i % 2) * token + i % 4 / 2 * call.v.channel];
      };
      if (whole) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) v_bits[i] = element(i);
        return;
      }
      const auto left = static_cast<int>(sequence.end - t0 < C ? sequence.end - t0 : C);
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) {
        const bool there = i / 4 * 8 + column(i) < left && value(i % 4) < call.V;
        v_bits[i] = there ? element(i) : 0;
      }
    };
    if (is_16_bit(call.v.dtype))
      fetch(static_cast<std::uint16_t*>(nullptr));
    else
      fetch(static_cast<std::uint32_t*>(nullptr));
  };

  ChunkCopies<KP, decay, rule, outputs> copies(call, workspace, chunk_place<C>(call, sequence, n, 0), head);
  if constexpr (kMayNormalize) {
    for (int i = threadIdx.x; i < KP; i += Memory::kThreads) memory.z.at[i] = 0;
  }
  if (sequence.begin < sequence.end) {
    if constexpr (kChannels && kDelta) copies.keys(memory.K.at);
    copies.queries(memory.Q.at);
    if constexpr (kAhead) copies.rest(memory.rest[0]);
    __pipeline_commit();
    if (working) fetch_values(sequence.begin);
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  int stage = 0;
  for (std::int64_t t0 = sequence.begin; t0 < sequence.end; t0 += C) {
    const int count = static_cast<int>(min(sequence.end - t0, std::int64_t{C}));
    const bool more = t0 + C < sequence.end;
    auto& rest = memory.rest[kAhead ? stage : 0];
    const float* const Q = memory.Q.at;
    const float* K = nullptr;
    if constexpr (!kChannels) {
      K = rest.K.at;
    } else if constexpr (kDelta) {
      K = memory.K.at;
    }
    // 2^G of a token, where K~ and Q~ are without it.
    const auto front = [&](int tile, int i) {
      if constexpr (kChannels)
        return 1.0f;
      else
        return rest.front_and_back.at[0][8 * tile + column(i)];
    };
    const auto owner = [](int tile) {  // the part that has this tile of O
      return kParts == 4 ? tile : tile == 0 || tile == 3 ? 0 : 1;
    };
    if constexpr (!kAhead) copies.rest(rest);
    copies.next();
    if (kAhead && more) copies.rest(memory.rest[stage ^ 1]);
    __pipeline_commit();

    Fragment y[kTiles] = {}, o[kTiles] = {};
    if (working) {
#pragma unroll
      for (int kt = 0; kt < kKeyTiles; ++kt) {
        const OperandA a(s[kt]);
        if constexpr (kDelta) multiply_rows(y, a, K, kRow<KP>, first_key + 8 * kt);
        if constexpr (outputs) multiply_rows(o, a, Q, kRow<KP>, first_key + 8 * kt);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        // Where this part leaves its sums for the part that owns the tile.
        float* const sums = &memory.o[slab][kParts == 4 ? (part + 3 - tile) % 4 : 0][4 * tile][lane];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (kDelta) memory.y.at[slab][part][4 * tile + i][lane] = y[tile][i];
          if (outputs && part != owner(tile)) sums[32 * i] = o[tile][i];
        }
      }
    }
    if constexpr (kMayNormalize) {
      if (call.normalize) make_divisors<KP>(memory, rest.M.at);
    }
    if constexpr (!kAhead) __pipeline_wait_prior(0);
    __syncthreads();  // sums have met; K~ and Q~ are done with, the rest has come
    if (more) {
      if constexpr (kChannels && kDelta) copies.keys(memory.K.at);
      copies.queries(memory.Q.at);
    }
    __pipeline_commit();
    if constexpr (kMayNormalize) {
      if (call.normalize) add_keys<KP>(memory, K);
    }

    if (working) {
      Fragment u[kTiles] = {};
      float v[4 * kTiles];
      if (v_pairs) {
        std::uint32_t bits[4 * kTiles];
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) {
          const std::uint32_t word = v_bits[2 * (i / 4) + i % 2];
          bits[i] = i % 4 < 2 ? word & 0xffff : word >> 16;
        }
        to_floats(bits, call.v.dtype, v);
      } else {
        to_floats(v_bits, call.v.dtype, v);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          y[tile][i] = v[4 * tile + i];
          if constexpr (kDelta) {
            float sum = memory.y.at[slab][0][4 * tile + i][lane];  // in the same order for all: the same U
#pragma unroll
            for (int of = 1; of < kParts; ++of) sum += memory.y.at[slab][of][4 * tile + i][lane];
            y[tile][i] -= front(tile, i) * sum;
          }
        }
      }
      const auto make_u = [&] {
        if constexpr (kDelta) {
#pragma unroll
          for (int from = 0; from < kTiles; ++from)
            multiply_rows(u, OperandA(y[from]), rest.T2.at, kPairRow, 8 * from, from);
        } else {
#pragma unroll
          for (int i = 0; i < 4 * kTiles; ++i) u[i / 4][i % 4] = y[i / 4][i % 4];
        }
      };
      make_u();
      int spoilt[2] = {C, C};  // the first token of the lane's two values that is not finite
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
      // The tiles of O that this part computes. With more parts than tiles, the last parts repeat the last
      // tile and do not store it.
      constexpr int kMine = kParts == 4 ? 1 : kTiles / 2;
      const bool has_mine = kParts == 2 || part < kTiles;
      const auto mine = [&](int j) {
        return kParts == 2 ? (part == 0 ? j * (kTiles - 1) : 1 + j) : has_mine ? part : kTiles - 1;
      };
      Fragment o_mine[kMine];
#pragma unroll
      for (int j = 0; outputs && j < kMine; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float sum = part == 0 ? o[j * (kTiles - 1)][i] : o[1 + j][i];
          if constexpr (kParts == 4) {
            sum = o[0][i];
#pragma unroll
            for (int tile = 1; tile < kTiles; ++tile) sum = tile == part ? o[tile][i] : sum;
          }
#pragma unroll
          for (int of = 0; of < kParts - 1; ++of) sum += memory.o[slab][of][4 * mine(j) + i][lane];
          o_mine[j][i] = front(mine(j), i) * sum;
        }
      }
      // The sum over the chunk is added to the state outside of the tensor core, which rounds towards zero:
      // over thousands of tokens that would wear the state away. Few key tiles at a time, for the registers'
      // sake. O's products, each of which waits for the last one, are among the first of them.
      constexpr int kAtOnce = kKeyTiles < 8 ? kKeyTiles : 8;
#pragma unroll
      for (int first = 0; first < kKeyTiles; first += kAtOnce) {
        Fragment d[kAtOnce] = {};
#pragma unroll
        for (int from = 0; from < kTiles; ++from) {
          const OperandA of_u(u[from]);
          if (outputs && first == 0) {
            float2 b[kMine];
#pragma unroll
            for (int j = 0; j < kMine; ++j) {
              b[j] = *reinterpret_cast<const float2*>(rest.M.at + (8 * mine(j) + g) * kPairRow + 8 * from +
                                                      2 * p);
            }
            multiply(o_mine, of_u, b);
          }
          if constexpr (kChannels) {
            multiply_rows(d, of_u, rest.Kr.at + (first_key + 8 * first) * kPairRow, kPairRow, 8 * from);
          } else {
            Fragment decayed;
#pragma unroll
            for (int i = 0; i < 4; ++i)
              decayed[i] = u[from][i] * rest.front_and_back.at[1][8 * from + column(i)];
            multiply_columns(d, OperandA(decayed), K + first_key + 8 * first, kRow<KP>, 8 * from);
          }
        }
#pragma unroll
        for (int kt = 0; kt < kAtOnce; ++kt) {
          float2 gamma;
          if constexpr (kChannels)
            gamma = *reinterpret_cast<const float2*>(rest.gamma.at + first_key + 8 * (first + kt) + 2 * p);
          else
            gamma.x = gamma.y = rest.front_and_back.at[0][C - 1];
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
      if (checkpoints.every > 0 && count == C) {
        float elements[4 * kKeyTiles];
#pragma unroll
        for (int i = 0; i < 4 * kKeyTiles; ++i) elements[i] = s[i / 4][i % 4];
        store_checkpoint(call, checkpoints, n, t0 + C, head, key, state_value, in_state, elements);
      }
      if (more) fetch_values(t0 + C);
      const auto store_outputs = [&]<class T>(T*) {
        struct alignas(2 * sizeof(T)) Pair {
          T x[2];
        };
        T* const first = static_cast<T*>(call.o.data) + token_offset(call.o, t0 + column(0), value(0));
        const bool pairs = whole_slab && count == C && call.o.packed;
#pragma unroll
        for (int j = 0; j < 2 * kMine; ++j) {
          const int t = 8 * mine(j / 2) + j % 2;
          float x[2] = {o_mine[j / 2][j % 2], o_mine[j / 2][j % 2 + 2]};
          T* const at = first + t * call.o.token;
          Pair pair;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if constexpr (kMayNormalize) {
              if (call.normalize) x[i] /= memory.divisors.at[t + column(0)];
            }
            if (rare && t + column(0) >= spoilt[i]) x[i] = CUDART_NAN_F;
            assign(pair.x[i], x[i]);
            if (!pairs && t + column(0) < count && value(2 * i) < call.V) at[i * call.o.channel] = pair.x[i];
          }
          if (pairs) *reinterpret_cast<Pair*>(at) = pair;
        }
      };
      if constexpr (outputs) {
        if (has_mine) with_type(call.o.dtype, store_outputs);
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the rest is done with, the next K~ and Q~ have come
    stage ^= 1;
  }

  float elements[4 * kKeyTiles];
#pragma unroll
  for (int i = 0; i < 4 * kKeyTiles; ++i) elements[i] = s[i / 4][i % 4];
  store_state(call.final_state, slots.write, head, key, state_value, in_state, elements);
}

}  // namespace fla::cuda
