#pragma once

#include "fla/ops/common/cuda/copies.cuh"
#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/recurrence/cuda/backward/held_values.cuh"
#include "fla/ops/recurrence/cuda/backward/workspace.cuh"
#include "fla/ops/recurrence/cuda/pairs.cuh"

/// Carries the state of one head of one sequence forward through the chunks of a window, or its gradient
/// back, for 32 values. Both are the same computation with different operators:
///
///                              forward               back
///     1  Y = A S               A = K~                A = Kr; Y += M^T E
///     2  W                     X diag(beta) (V - Y)  diag(beta) X^T Y
///     3  S <- diag(gamma) S    + Kr^T W              - K~^T W + Q~^T E
///
/// With Rule::additive W is V, or Y.
///
///     warp (slab, part)   values 16 slab .. 16 slab + 15, 64 keys
///                         S^T [16 values x 64 keys] in registers, as the tensor core leaves it
///     1                   each part has sums over its keys; they meet in shared memory
///     2                   all parts do the same
///
/// The operators of 1 are copied for the next chunk while 2 and 3 run, those of 2 and 3 while 1 runs.
namespace fla::cuda {

enum class Direction { forward, back };

inline constexpr int kCarrySlabs = 2, kCarryValues = 16 * kCarrySlabs;

template <int KP, Rule rule, Direction direction>
struct CarryMemory {
  static constexpr bool kBack = direction == Direction::back, kDelta = rule == Rule::delta;
  static constexpr int C = chunk_size(KP), kParts = KP / 64, kThreads = kCarrySlabs * kParts * 32;
  static constexpr int kPairRow = cuda::kPairRow<C>, kValueRow = kCarryValues + 8;
  using Keys = float[C * kRow<KP>];
  using Pairs = float[C * kPairRow];

  Maybe<kDelta || kBack, Keys> A;   ///< of 1
  Maybe<kDelta || !kBack, Keys> B;  ///< of 3
  Maybe<kBack, Keys> Q;
  Maybe<kBack, Pairs> M;
  Maybe<kDelta, Pairs> X;
  alignas(16) float gamma[KP], beta[C], values[C * kValueRow];  // V or E
  Maybe<kDelta || kBack, float[kCarrySlabs][kParts][C / 8][4][32]> sums;
};

template <int KP, Rule rule, Direction direction>
__global__ void __launch_bounds__(CarryMemory<KP, rule, direction>::kThreads)
    carry(const __grid_constant__ BackwardCall back,
          const __grid_constant__ BackwardWorkspace<KP, rule> workspace, bool keep) {
  using Memory = CarryMemory<KP, rule, direction>;
  constexpr bool kBack = Memory::kBack, kDelta = Memory::kDelta;
  constexpr int C = Memory::C, kTiles = C / 8, kKeyTiles = 8, kThreads = Memory::kThreads;
  constexpr int kPairRow = Memory::kPairRow, kValueRow = Memory::kValueRow;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);

  const RecurrenceCall& call = back.call;
  const int blocks = workspace.VP / kCarryValues, VP = workspace.VP;
  const int block_value = static_cast<int>(blockIdx.x % blocks) * kCarryValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const Sequence sequence = sequence_of(call, n);
  const ChunkSpan span(call, workspace, sequence, n);
  const bool empty = span.count == 0 && kBack && workspace.first == 0;  // dS is dht
  if (span.begin >= span.end && !empty) return;

  const int lane = threadIdx.x % 32, slab = threadIdx.x / 32 % kCarrySlabs,
            part = threadIdx.x / (32 * kCarrySlabs);
  const int g = lane / 4, p = lane % 4, first_key = part * 64, slab_value = slab * 16;
  const Scale<> scale = workspace.scale(call, n, head);

  // Element i of a fragment, as in chunk_state.cuh: neighbouring values in rows g and g + 8.
  const auto column = [&](int i) { return 2 * p + i % 2; };
  const auto key = [&](int i) { return first_key + i / 4 * 8 + column(i % 4); };
  const auto value = [&](int i) { return block_value + slab_value + 2 * g + i % 4 / 2; };
  const auto in_state = [&](int i) { return key(i) < call.K && value(i) < call.V; };

  Fragment s[kKeyTiles];
  // A state in the workspace, [KP][VP].
  const auto with_state = [&](float* state, auto&& body) {
    state += block_value + slab_value + 2 * g;
#pragma unroll
    for (int i = 0; i < 2 * kKeyTiles; ++i) {
      float(&of)[4] = s[i / 2];
      body(*reinterpret_cast<float2*>(state + (first_key + i / 2 * 8 + column(i % 2)) * VP), of[i % 2],
           of[i % 2 + 2]);
    }
  };
  const auto load_from = [](float2 from, float& x, float& y) { x = from.x, y = from.y; };
  const auto store_to = [](float2& to, float x, float y) { to = {x, y}; };
  const auto carried = [&](std::int64_t window) {
    return workspace.carried + workspace.state(window % 2 * call.HV + head);
  };
  const auto kept = [&](std::int64_t window) {
    return workspace.kept + workspace.state(window * call.HV + head);
  };
  const std::int64_t window = workspace.window();
  const bool from_outside = kBack ? span.end == span.count : span.begin == 0;
  if (from_outside) {
    float elements[4 * kKeyTiles];
    load_state(kBack ? back.dht : call.initial_state, n, head, key, value, in_state, elements);
#pragma unroll
    for (int i = 0; i < 4 * kKeyTiles; ++i) s[i / 4][i % 4] = kBack ? scale.down * elements[i] : elements[i];
  } else {
    with_state(kBack ? carried(window) : kept(window), load_from);
  }

  const auto store_outside = [&] {  // the gradient of the initial state
    float elements[4 * kKeyTiles];
#pragma unroll
    for (int i = 0; i < 4 * kKeyTiles; ++i) elements[i] = scale.up * s[i / 4][i % 4];
    store_state(back.dinitial_state, n, head, key, value, in_state, elements);
  };
  if (empty) return store_outside();

  const auto chunk_at = [&](std::int64_t i) {
    return workspace.at(call, span.place + (kBack ? span.end - 1 - i : span.begin + i), head);
  };
  const auto range_of = [&](std::int64_t i) {
    const std::int64_t t0 = sequence.begin + (kBack ? span.end - 1 - i : span.begin + i) * C;
    return TokenRange{sequence.batch, t0, static_cast<int>(min(sequence.end - t0, std::int64_t{C}))};
  };
  const auto copy_first = [&](std::int64_t i) {
    const auto& operators = workspace.operators[chunk_at(i)];
    if constexpr (kBack) {
      copy_rows<kThreads, C, KP, kRow<KP>>(&operators.Kr.at[0][0], memory.A.at);
      copy_rows<kThreads, C, C, kPairRow>(&operators.M.at[0][0], memory.M.at);
    } else if constexpr (kDelta) {
      copy_rows<kThreads, C, KP, kRow<KP>>(&operators.K.at[0][0], memory.A.at);
    }
  };
  const auto copy_second = [&](std::int64_t i) {
    const auto& operators = workspace.operators[chunk_at(i)];
    if constexpr (!kBack) copy_rows<kThreads, C, KP, kRow<KP>>(&operators.Kr.at[0][0], memory.B.at);
    if constexpr (kBack && kDelta) copy_rows<kThreads, C, KP, kRow<KP>>(&operators.K.at[0][0], memory.B.at);
    if constexpr (kBack) copy_rows<kThreads, C, KP, kRow<KP>>(&operators.Q.at[0][0], memory.Q.at);
    if constexpr (kDelta) copy_rows<kThreads, C, C, kPairRow>(&operators.T2.at[0][0], memory.X.at);
    copy_rows<kThreads, 1, KP, KP>(operators.gamma.at, memory.gamma);
    copy_rows<kThreads, 1, C, C>(operators.beta, memory.beta);
  };
  const Rows& rows = kBack ? back.do_ : call.v;
  const int row_values = kBack ? workspace.values : call.V;
  using Held = HeldValues<C, kCarryValues, kThreads, kValueRow>;
  Held held;
  const std::int64_t chunks = span.end - span.begin;
  held.fetch(rows, head, block_value, row_values, range_of(0));
  copy_first(0);
  __pipeline_commit();
  copy_second(0);
  __pipeline_commit();

  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t at = chunk_at(i);
    held.put(rows.dtype, kBack ? scale.down : 1, memory.values);
    if (!kBack && workspace.values > call.V && block_value + Held::value() == call.V) {
      // The value that adds up keys is 1 for every token.
      for (int r = 0; r < Held::kEach; ++r) {
        const int t = Held::token(r);
        memory.values[t * kValueRow + Held::value()] = t < range_of(i).count ? 1 : 0;
      }
    }
    if (keep) with_state((kBack ? workspace.dS : workspace.S) + workspace.state(at), store_to);
    __pipeline_wait_prior(1);
    __syncthreads();  // V or E, and what 1 reads, are there

    // V^T or E^T of tokens 8 tile ..
    const auto values = [&](int tile, Fragment& x) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float2 two = *reinterpret_cast<const float2*>(
            memory.values + (8 * tile + column(c)) * kValueRow + slab_value + 2 * g);
        x[c] = two.x, x[c + 2] = two.y;
      }
    };
    if constexpr (kDelta || kBack) {
      Fragment y[kTiles] = {};
#pragma unroll
      for (int kt = 0; kt < kKeyTiles; ++kt)
        multiply_rows(y, OperandA(s[kt]), memory.A.at, kRow<KP>, first_key + 8 * kt);
      if constexpr (kBack) {
#pragma unroll
        for (int from = 0; from < kTiles; ++from) {
          if (from % Memory::kParts != part) continue;
          Fragment e;
          values(from, e);
          multiply_columns(y, OperandA(e), memory.M.at, kPairRow, 8 * from);
        }
      }
#pragma unroll
      for (int j = 0; j < 4 * kTiles; ++j) memory.sums.at[slab][part][j / 4][j % 4][lane] = y[j / 4][j % 4];
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // sums have met; what 1 reads is done with, what 3 reads has come
    if (i + 1 < chunks) {
      copy_first(i + 1);
      held.fetch(rows, head, block_value, row_values, range_of(i + 1));
    }
    __pipeline_commit();

    Fragment w[kTiles];
    const auto store_rows = [&](float* to) {  // [C][VP]
      to += workspace.rows(at) + block_value + slab_value + 2 * g;
#pragma unroll
      for (int j = 0; j < 2 * kTiles; ++j) {
        *reinterpret_cast<float2*>(to + (j / 2 * 8 + column(j % 2)) * VP) = {w[j / 2][j % 2],
                                                                             w[j / 2][j % 2 + 2]};
      }
    };
    const auto beta = [&](int j) { return memory.beta[j / 4 * 8 + column(j % 4)]; };
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if constexpr (!kBack) values(tile, w[tile]);
      if constexpr (kDelta || kBack) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float sum = memory.sums.at[slab][0][tile][j][lane];  // in the same order for all
#pragma unroll
          for (int of = 1; of < Memory::kParts; ++of) sum += memory.sums.at[slab][of][tile][j][lane];
          w[tile][j] = kBack ? sum : w[tile][j] - sum;
        }
      }
    }
    const bool first_part = keep && part == 0;
    if constexpr (kDelta) {
      if (!kBack && first_part) store_rows(workspace.Z);
      Fragment solved[kTiles] = {};
#pragma unroll
      for (int from = 0; from < kTiles; ++from) {
        if constexpr (kBack) {
          multiply_columns(solved, OperandA(w[from]), memory.X.at, kPairRow, 8 * from);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) w[from][j] = weighted(beta(4 * from + j), w[from][j]);
          multiply_rows(solved, OperandA(w[from]), memory.X.at, kPairRow, 8 * from, from);
        }
      }
#pragma unroll
      for (int j = 0; j < 4 * kTiles; ++j) w[j / 4][j % 4] = solved[j / 4][j % 4];
      if constexpr (kBack) {
        if (first_part) store_rows(workspace.dY);
#pragma unroll
        for (int j = 0; j < 4 * kTiles; ++j) w[j / 4][j % 4] *= beta(j);
      }
    }
    if (!kBack && first_part) store_rows(workspace.U);
    if (kBack && part == 0 && back.dv.data) {
      const TokenRange range = range_of(i);
#pragma unroll
      for (int j = 0; j < 4 * kTiles; ++j) {
        const int t = j / 4 * 8 + column(j % 4);
        if (t >= range.count || value(j) >= call.V) continue;
        store(back.dv.data, back.dv.dtype,
              range.batch * back.dv.batch + (range.first + t) * back.dv.token + head * back.dv.head +
                  value(j) * back.dv.channel,
              scale.up * w[j / 4][j % 4]);
      }
    }
    if constexpr (kBack) {
#pragma unroll
      for (int j = 0; j < 4 * kTiles; ++j) w[j / 4][j % 4] = -w[j / 4][j % 4];
    }

    // Added to the state outside of the tensor core, which rounds towards zero.
    Fragment d[kKeyTiles] = {};
#pragma unroll
    for (int from = 0; from < kTiles; ++from) {
      if constexpr (kDelta || !kBack)
        multiply_columns(d, OperandA(w[from]), memory.B.at + first_key, kRow<KP>, 8 * from);
      if constexpr (kBack) {
        Fragment e;
        values(from, e);
        multiply_columns(d, OperandA(e), memory.Q.at + first_key, kRow<KP>, 8 * from);
      }
    }
#pragma unroll
    for (int j = 0; j < 4 * kKeyTiles; ++j)
      s[j / 4][j % 4] = s[j / 4][j % 4] * memory.gamma[key(j)] + d[j / 4][j % 4];
    __syncthreads();  // V or E, and what 3 reads, are done with
    if (i + 1 < chunks) copy_second(i + 1);
    __pipeline_commit();
  }

  if constexpr (kBack) {
    if (span.begin == 0)
      store_outside();
    else
      with_state(carried(window + 1), store_to);
  } else if (span.end < span.count) {
    with_state(kept(window + 1), store_to);
  }
}

}  // namespace fla::cuda
