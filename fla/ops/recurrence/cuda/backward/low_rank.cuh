#pragma once

#include "fla/ops/common/cuda/warp.cuh"
#include "fla/ops/recurrence/cuda/backward/workspace.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// The gradients of Rule::low_rank, token by token. With u = a^T S, S' = diag(d) S + b u^T + k v^T the state
/// after a token and dS' its gradient, which E has been added to,
///
///     du = b^T dS'      dv = k^T dS'      dq = S' E      dk = dS' v      db = dS' u      da = S du
///     dg = d * rowsum(S * dS')            dS = diag(d) dS' + a du^T
///
///     block    one head of one sequence, kShareValues of its values, through the chunks of a window
///     thread   one channel (two with KP = 256): its rows of S and dS in registers
///
/// Sums over channels are made in the block. Sums over values are the block's share; store_rows adds the
/// shares.
///
/// The forward pass keeps the states at the starts of chunks. The backward pass recomputes a chunk from
/// there, stores the state before every token, and reads them in reverse.
namespace fla::cuda {

template <int KP>
struct LowRankMemory {
  static constexpr int C = BackwardWorkspace<KP, Rule::low_rank>::C, kValues = kShareValues<KP>;
  alignas(16) float q[C * kRow<KP>], k[C * kRow<KP>], a[C * kRow<KP>], b[C * kRow<KP>], d[C * kRow<KP>];
  float v[C][kValues], E[C][kValues], beta[C];
  float sums[2][3][kWarps][kValues];
};

template <int KP>
class LowRankBlock {
 public:
  using Workspace = BackwardWorkspace<KP, Rule::low_rank>;
  using Memory = LowRankMemory<KP>;
  static constexpr int C = Memory::C, kValues = Memory::kValues, kColumns = KP / kThreads;
  static_assert(KP % kThreads == 0);
  using State = float[kColumns][kValues];

  __device__ LowRankBlock(const BackwardCall& back, const Workspace& workspace, Memory& memory)
      : back_(back),
        call_(back.call),
        workspace_(workspace),
        memory_(memory),
        share_(static_cast<int>(blockIdx.x % workspace.shares)),
        head_(static_cast<int>(blockIdx.x / workspace.shares % back.call.HV)),
        n_(blockIdx.x / workspace.shares / back.call.HV),
        sequence_(sequence_of(call_, n_)),
        span_(call_, workspace, sequence_, n_),
        scale_(workspace.scale(call_, n_, head_)),
        loader_(call_, head_) {}

  __device__ void go_forward(bool keep) {
    if (span_.begin >= span_.end) return;
    State s;
    if (span_.begin == 0)
      load_outside(call_.initial_state, 1, s);
    else
      load(kept(window()), s);
    for (std::int64_t i = span_.begin; i < span_.end; ++i) {
      if (keep) store(start_of(i), s);
      const int count = load_tokens(i);
      for (int t = 0; t < count; ++t) step(t, s);
    }
    if (span_.end < span_.count) store(kept(window() + 1), s);
  }

  __device__ void go_back() {
    const bool empty = span_.count == 0 && workspace_.first == 0;
    if (span_.begin >= span_.end && !empty) return;
    State ds;
    if (span_.end == span_.count)
      load_outside(back_.dht, scale_.down, ds);
    else
      load(carried(window()), ds);
    for (std::int64_t i = span_.end - 1; i >= span_.begin; --i) {
      const int count = load_tokens(i);
      State s;
      load(start_of(i), s);
      for (int t = 0; t < count; ++t) {
        store_token(t, s);
        step(t, s);
      }
      store_token(count, s);
      auto& shares = operators(i);
      for (int t = count - 1; t >= 0; --t) step_back(i, t, ds, shares);
    }
    if (span_.begin > 0) return store(carried(window() + 1), ds);
    for_all([&](int c, int j, int channel, int value) {
      if (!back_.dinitial_state.data || channel >= call_.K || value >= call_.V) return;
      cuda::store(back_.dinitial_state.data, back_.dinitial_state.dtype,
                  at(back_.dinitial_state, channel, value), scale_.up * ds[c][j]);
    });
  }

 private:
  __device__ std::int64_t window() const { return workspace_.window(); }
  __device__ int channel(int c) const { return c * kThreads + static_cast<int>(threadIdx.x); }
  __device__ std::int64_t at(const States& states, int channel, int value) const {
    return states.offset(n_, head_) + channel * states.key + value * states.value;
  }

  template <class Body>
  __device__ void for_all(Body&& body) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int j = 0; j < kValues; ++j) body(c, j, channel(c), share_ * kValues + j);
    }
  }
  // States in the workspace are [KP][VP] for all values of a head, but here a block alone reads what it
  // wrote: [value][KP], a thread's channels beside its neighbours'.
  __device__ void load(const float* from, State& s) const {
    for_all([&](int c, int j, int channel, int) { s[c][j] = from[j * KP + channel]; });
  }
  __device__ void store(float* to, const State& s) const {
    for_all([&](int c, int j, int channel, int) { to[j * KP + channel] = s[c][j]; });
  }
  __device__ void load_outside(const States& states, float factor, State& s) const {
    for_all([&](int c, int j, int channel, int value) {
      const bool there = states.data && channel < call_.K && value < call_.V;
      s[c][j] = there ? factor * cuda::load(states.data, states.dtype, at(states, channel, value)) : 0;
    });
  }
  __device__ float* of_share(float* states, std::int64_t index) const {
    return states + (index * workspace_.shares + share_) * kValues * KP;
  }
  __device__ float* kept(std::int64_t window) const {
    return of_share(workspace_.kept, window * call_.HV + head_);
  }
  __device__ float* carried(std::int64_t window) const {
    return of_share(workspace_.carried, window % 2 * call_.HV + head_);
  }
  __device__ float* start_of(std::int64_t chunk) const {
    return of_share(workspace_.S, workspace_.at(call_, span_.place + chunk, head_));
  }
  __device__ BackwardOperators<KP, Rule::low_rank>& operators(std::int64_t chunk) const {
    return workspace_
        .operators[workspace_.at(call_, span_.place + chunk, head_) * workspace_.shares + share_];
  }
  /// The state before token t of the chunk. Every sequence in the window has a chunk there, which no other
  /// has.
  __device__ float* token_state(int t) const {
    const std::int64_t place =
        call_.N <= workspace_.places ? n_ : span_.place + span_.begin - workspace_.first;
    return workspace_.tokens +
           (((place * call_.HV + head_) * workspace_.shares + share_) * (C + 1) + t) * kValues * KP;
  }
  __device__ void store_token(int t, const State& s) const { store(token_state(t), s); }

  __device__ int load_tokens(std::int64_t chunk) {
    const std::int64_t t0 = sequence_.begin + chunk * C;
    const TokenRange range{sequence_.batch, t0, static_cast<int>(min(sequence_.end - t0, std::int64_t{C}))};
    __syncthreads();
    loader_.load(range, memory_.q, memory_.k, memory_.d, memory_.beta);
    load_rows<C, KP>(back_.pair.a, head_ / call_.group, call_.K, range, memory_.a);
    load_rows<C, KP>(back_.pair.b, head_ / call_.group, call_.K, range, memory_.b);
    for (int i = threadIdx.x; i < C * kValues; i += kThreads) {
      const int t = i / kValues, value = share_ * kValues + i % kValues;
      const bool there = t < range.count && value < call_.V;
      const auto element = [&](const Rows& rows) {
        if (!there) return 0.0f;
        return cuda::load(
            rows.data, rows.dtype,
            range.batch * rows.batch + (t0 + t) * rows.token + head_ * rows.head + value * rows.channel);
      };
      memory_.v[t][i % kValues] = element(call_.v);
      memory_.E[t][i % kValues] = scale_.down * element(back_.do_);
    }
    __syncthreads();
    return range.count;
  }

  /// Adds up x[i], for every i, over all channels: `sums` is where they come to, the same for all threads.
  template <int count>
  __device__ const float (*add_up(float (&x)[count][kValues]))[kWarps][kValues] {
    auto& sums = memory_.sums[turn_ ^= 1];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      reduce_scatter<32, 1>(x[i]);
      const int lane = threadIdx.x % 32;
      if (lane % (32 / kValues) == 0) sums[i][threadIdx.x / 32][lane / (32 / kValues)] = x[i][0];
    }
    __syncthreads();
    return sums;
  }
  __device__ static float sum_of(const float (&sums)[kWarps][kValues], int j) {
    return (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
  }

  __device__ void step(int t, State& s) {
    float x[1][kValues] = {};
    for_all([&](int c, int j, int channel, int) { x[0][j] += memory_.a[t * kRow<KP> + channel] * s[c][j]; });
    const auto* const u = add_up(x);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int at = t * kRow<KP> + channel(c);
      const float d = memory_.d[at], k = memory_.k[at], b = memory_.b[at];
#pragma unroll
      for (int j = 0; j < kValues; ++j) s[c][j] = d * s[c][j] + b * sum_of(u[0], j) + k * memory_.v[t][j];
    }
  }

  template <class Shares>
  __device__ void step_back(std::int64_t chunk, int t, State& ds, Shares& shares) {
    State before;
    load(token_state(t), before);
    float x[3][kValues] = {};  // du, dv, u
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int at = t * kRow<KP> + channel(c);
      const float q = memory_.q[at], k = memory_.k[at], a = memory_.a[at], b = memory_.b[at];
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        ds[c][j] += q * memory_.E[t][j];
        x[0][j] += b * ds[c][j];
        x[1][j] += k * ds[c][j];
        x[2][j] += a * before[c][j];
      }
    }
    const auto* const sums = add_up(x);
    const float* const after = token_state(t + 1);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int at = t * kRow<KP> + channel(c);
      const float d = memory_.d[at], a = memory_.a[at];
      float dq = 0, dk = 0, da = 0, db = 0, dg = 0;
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        const float du = sum_of(sums[0], j);
        dq += after[j * KP + channel(c)] * memory_.E[t][j];
        dk += ds[c][j] * memory_.v[t][j];
        db += ds[c][j] * sum_of(sums[2], j);
        da += before[c][j] * du;
        dg += before[c][j] * ds[c][j];
        ds[c][j] = d * ds[c][j] + a * du;
      }
      const float all[5] = {dq, dk, da, db, d * dg};
#pragma unroll
      for (int i = 0; i < 5; ++i) shares.at[i][t][channel(c)] = all[i];
    }
    if (const int j = threadIdx.x; j < kValues && back_.dv.data && share_ * kValues + j < call_.V) {
      const Rows& rows = back_.dv;
      const std::int64_t token = sequence_.begin + chunk * C + t;
      cuda::store(rows.data, rows.dtype,
                  sequence_.batch * rows.batch + token * rows.token + head_ * rows.head +
                      (share_ * kValues + j) * rows.channel,
                  scale_.up * sum_of(sums[1], j));
    }
  }

  const BackwardCall& back_;
  const RecurrenceCall& call_;
  const Workspace& workspace_;
  Memory& memory_;
  int share_, head_;
  std::int64_t n_;
  Sequence sequence_;
  ChunkSpan span_;
  Scale<> scale_;
  TokenLoader<C, KP, Decays::plain> loader_;
  int turn_ = 0;
};

template <int KP>
__global__ void __launch_bounds__(kThreads)
    low_rank_forward(const __grid_constant__ BackwardCall back,
                     const __grid_constant__ BackwardWorkspace<KP, Rule::low_rank> workspace, bool keep) {
  extern __shared__ __align__(16) char shared[];
  LowRankBlock<KP>(back, workspace, *reinterpret_cast<LowRankMemory<KP>*>(shared)).go_forward(keep);
}

template <int KP>
__global__ void __launch_bounds__(kThreads)
    low_rank_back(const __grid_constant__ BackwardCall back,
                  const __grid_constant__ BackwardWorkspace<KP, Rule::low_rank> workspace) {
  extern __shared__ __align__(16) char shared[];
  LowRankBlock<KP>(back, workspace, *reinterpret_cast<LowRankMemory<KP>*>(shared)).go_back();
}

}  // namespace fla::cuda
