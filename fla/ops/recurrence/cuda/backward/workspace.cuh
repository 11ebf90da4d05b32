#pragma once

#include <algorithm>

#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/recurrence/cuda/backward/scales.cuh"
#include "fla/ops/recurrence/cuda/chunk.cuh"

/// The gradients of the chunked form (chunk.cuh). With E = dO, dS' the gradient of the state that a chunk
/// leaves, X = (I + diag(beta) N)^-1 and Z = V - K~ S,
///
///     dU  = M^T E + Kr dS'         dY  = X^T dU                 dV  = diag(beta) dY
///     dM  = E U^T                  dA  = -dY U^T                dbeta_i = dY_i Z_i + dA_i N_i
///     dQ~ = E S^T                  dK~ = -dV S^T                dKr = U dS'^T
///     dS  = diag(gamma) dS' + Q~^T E - K~^T dV
///
/// and dV = dU with Rule::additive, which has neither N nor K~. A product x that contains a decay from token
/// j to token i adds x dx to the gradient of every log-decay g_t with j < t <= i: sums of such terms, from
/// which nothing is ever subtracted.
///
/// The chunks of a call are processed in windows. Only the state at each window's start is kept for the whole
/// call; everything else is the memory of one window. The kernels of a call:
///
///     clear, find_largest            the largest upstream gradients, which scales follow (rows.cuh)
///     for each window but the last:
///         chunk_prepare              the operators of its chunks
///         carry, forward             the state through them (carry.cuh)
///     for each window, last to first:
///         chunk_prepare
///         carry, forward             keeps S, U and Z of every chunk
///         carry, back                dS' and dY of every chunk; dV
///         chunk_gradients            dq, dk, dg and dbeta of value heads (gradients.cuh)
///         add_parts, store_rows      sums over tokens; dq and dk of key heads (rows.cuh)
///
/// With Rule::low_rank, low_rank.cuh takes the place of chunk_prepare, carry and chunk_gradients: it goes
/// token by token.
///
/// Upstream gradients may be as small as f32 allows, where the tensor core would lose the low parts of
/// products (mma.cuh). So the upstream gradients of each head of a sequence are multiplied by a power of two
/// that brings the largest near 1, and the results by its inverse.
namespace fla::cuda {

/// What a chunk and value head has in the workspace besides states and rows of values. dq and dk take the
/// place of Q and Kr.
template <int KP, Rule rule>
struct BackwardOperators {
  static constexpr bool kDelta = rule == Rule::delta;
  Maybe<kDelta, KeyRows<KP>> K;  ///< K~
  Maybe<true, KeyRows<KP>> Q;    ///< Q~
  Maybe<true, KeyRows<KP>> Kr;
  Maybe<true, KeyPairs<KP>> M;     ///< zeros above the diagonal
  Maybe<kDelta, KeyPairs<KP>> N;   ///< likewise, and on it
  Maybe<kDelta, KeyPairs<KP>> T2;  ///< X
  Maybe<true, float[KP]> gamma;
  alignas(16) float beta[chunk_size(KP)];

  __device__ void write_Kr(int t, int channel, float4 x) {
    Kr.at[t][channel] = x.x, Kr.at[t + 1][channel] = x.y;
    Kr.at[t + 2][channel] = x.z, Kr.at[t + 3][channel] = x.w;
  }
};

/// With Rule::low_rank the values of a head are split over blocks. Each block writes its share of the
/// gradients of q, k, a, b and g, in this order.
template <int KP>
struct BackwardOperators<KP, Rule::low_rank> {
  float at[5][16][KP];
};
/// How many values such a block has.
template <int KP>
inline constexpr int kShareValues = 4096 / KP;

/// The memory of a call, and the window that a kernel works on. `largest`, `sums`, `kept` and `carried` last
/// for the call, the rest for one window.
template <int KP, Rule rule>
struct BackwardWorkspace {
  using Operators = BackwardOperators<KP, rule>;
  static constexpr bool kBackward = true, kDelta = rule == Rule::delta, kLowRank = rule == Rule::low_rank;
  static constexpr int C = kLowRank ? 16 : chunk_size(KP);

  std::int64_t first = 0, places;  ///< the window's first place, and how many it has
  int values;                      ///< V, and one more with normalize: the sums of keys
  int VP;                          ///< values, as a multiple of 32
  int shares;                      ///< operators of a chunk and value head
  std::uint32_t* largest;          ///< [N][HV], bits of absolute values: of E and dht
  double* sums;          ///< [HV][2][KP], over tokens: gradients of gates' offsets, and of their rates
  float* parts;          ///< [place][HV][2][KP], of `sums`
  Operators* operators;  ///< [place][HV][shares]
  float *U, *Z, *dY;     ///< [place][HV][C][VP]
  float *S, *dS;         ///< [place][HV][KP][VP], as chunks begin and as they end
  float* tokens;         ///< with Rule::low_rank, of every block: states [C + 1][kShareValues][KP]
  float* kept;           ///< [window][HV][KP][VP], the states that go into windows
  float* carried;        ///< [2][HV][KP][VP], the gradients of states that come out of them

  __device__ Scale<> scale(const RecurrenceCall& call, std::int64_t n, int head) const {
    return Scale<>(largest[n * call.HV + head]);
  }
  __device__ std::int64_t window() const { return first / places; }
  static std::int64_t windows(std::int64_t all, std::int64_t places) { return (all + places - 1) / places; }

  /// The index of a chunk and value head.
  __device__ std::int64_t at(const RecurrenceCall& call, std::int64_t place, int head) const {
    return (place - first) * call.HV + head;
  }
  __device__ std::int64_t rows(std::int64_t at) const { return at * C * VP; }
  __device__ std::int64_t state(std::int64_t at) const { return at * KP * VP; }

  /// `window`: tokens of value heads in a window, 0: kWindow.
  static constexpr std::int64_t kWindow = kLowRank ? 1 << 14 : 1 << 17;
  BackwardWorkspace(const RecurrenceCall& call, char* memory, std::int64_t window)
      : values(call.V + (call.normalize ? 1 : 0)) {
    const std::int64_t all = chunk_places<C>(call);
    places = std::max<std::int64_t>(1, std::min(all, (window ? window : kWindow) / C / std::max(1, call.HV)));
    VP = (values + 31) / 32 * 32;
    shares = kLowRank ? (VP + kShareValues<KP> - 1) / kShareValues<KP> : 1;
    MemoryParts cut{memory};
    const std::int64_t chunks = places * call.HV, state_size = std::int64_t{KP} * VP;
    cut.next(largest, call.N * call.HV);
    cut.next(sums, std::int64_t{2} * call.HV * KP);
    cut.next(parts, 2 * chunks * KP);
    cut.next(operators, chunks * shares);
    cut.next(U, kLowRank ? 0 : chunks * C * VP);
    cut.next(Z, kDelta ? chunks * C * VP : 0);
    cut.next(dY, kDelta ? chunks * C * VP : 0);
    cut.next(S, chunks * state_size);
    cut.next(dS, kLowRank ? 0 : chunks * state_size);
    cut.next(tokens,
             kLowRank ? std::min(call.N, places) * call.HV * shares * (C + 1) * KP * kShareValues<KP> : 0);
    cut.next(kept, windows(all, places) * call.HV * state_size);
    cut.next(carried, 2 * call.HV * state_size);
    bytes = cut.bytes;
  }
  std::size_t bytes = 0;
};

/// A sequence's chunks in a window: from the first one to one past the last, of `count`. Of a sequence that
/// begins after the window, 0 and 0.
struct ChunkSpan {
  std::int64_t place, begin, end, count;  ///< `place`: that of chunk 0

  template <class Workspace>
  __device__ ChunkSpan(const RecurrenceCall& call, const Workspace& workspace, const Sequence& sequence,
                       std::int64_t n)
      : place(chunk_place<Workspace::C>(call, sequence, n, 0)),
        begin(max(std::int64_t{0}, workspace.first - place)),
        count((sequence.end - sequence.begin + Workspace::C - 1) / Workspace::C) {
    end = max(std::int64_t{0}, min(count, workspace.first + workspace.places - place));
  }
};

}  // namespace fla::cuda
