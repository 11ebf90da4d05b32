#pragma once

#include <cuda_pipeline.h>

#include <bit>

#include "backends/cuda_decode/ring.cuh"
#include "fla/ops/common/cuda/bulk.cuh"

/// A step of one token over rings (replay.cu). What it costs is the instructions around the state, so a block
/// has a whole head and they are done once. With a barrier between:
///
///     copies     the state, and the ring's keys and gates, are sent for
///     channels   a thread a channel, of each team, which has some of the keys: their pairs with the token
///     sums       over the state, which came to shared memory; the ring's u is sent for, to the keys' place
///     outputs    a thread a value: u and o of the token
///
/// The sums take the state's place, and so do the ring's keys where it is folded. The fold reads the state a
/// second time, which the second level cache still has.
namespace fla::cuda {

/// That which a launch asks for.
__device__ inline char* shared_memory() {
  extern __shared__ __align__(16) char shared[];
  return shared;
}

inline namespace decode_parts {

inline constexpr int kHeadThreads = 128;

/// A head's state, and threads' shares of its sums over keys. [K, V]: a thread has four values. [V, K]: it
/// has one; 16 bytes j of a row lie at j ^ row % 8, where threads of neighbouring rows meet in no bank.
template <class State, int K, int V, bool v_first>
struct HeadState {
  static constexpr int kBytes = K * V * sizeof(State), kPackets = kBytes / 16;
  static constexpr int kVec = kVector<State>, kRow = (v_first ? K : V) / kVec;  // packets of a row
  static constexpr int kValues = v_first ? 1 : 4;
  static constexpr int kShares = kHeadThreads * kValues / V, kKeys = K / kShares;
  static constexpr int kFolded =
      v_first ? kVec : std::min(kKeys, sizeof(State) == 4 ? 16 : 8);  // keys at once
  static constexpr int kSumBytes = kShares * 2 * V * sizeof(float);
  static constexpr bool kBulk = kHasBulkCopies && !v_first;  // one piece of memory

  static __device__ int first_value() { return threadIdx.x % (V / kValues) * kValues; }
  static __device__ int share() { return threadIdx.x / (V / kValues); }

  /// By all threads, of which one has it all done where that is no more than one piece of memory.
  static __device__ void copy(const State* from, char* to, Arrival& arrival) {
    if constexpr (kBulk) {
      if (threadIdx.x != 0) return;
      arrival.begin();
      arrival.expect(kBytes);
      copy_bulk(to, from, kBytes, arrival);
    } else {
      constexpr int kRowsAtOnce = kHeadThreads / kRow;
      const int thread = threadIdx.x, place = v_first ? thread ^ thread / kRow % 8 : thread;
      from += thread * kVec;
#pragma unroll
      for (int i = 0; i < kPackets / kHeadThreads; ++i) {
        const int at = v_first ? place ^ i * kRowsAtOnce % 8 : place;
        __pipeline_memcpy_async(to + (i * kHeadThreads + at) * 16, from + i * kHeadThreads * kVec, 16);
      }
    }
    __pipeline_commit();
  }
  /// With a barrier since the copy, and another behind.
  static __device__ void wait(Arrival& arrival) {
    if constexpr (kBulk) arrival.wait(0);
    __pipeline_wait_prior(0);
  }

  /// Sums of this thread's values over its share of the keys.
  template <Rule rule>
  static __device__ void sum(const char* state, const float* x, const float* qd, float (&x_sums)[kValues],
                             float (&q_sums)[kValues]) {
    const int first = share() * kKeys;
    constexpr int kStep = v_first ? kVec : 4;
#pragma unroll
    for (int key = 0; key < kKeys; key += kStep) {
      float a[kStep] = {}, b[kStep];
      if constexpr (rule != Rule::additive) read(x + first + key, 1, a);
      read(qd + first + key, 1, b);
      if constexpr (v_first) {
        const int row = first_value(), packet = (first + key) / kVec;
        const uint4 bits = reinterpret_cast<const uint4*>(state)[row * kRow + (packet ^ row % 8)];
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const float s = element<State>(bits, e);
          if constexpr (rule != Rule::additive) x_sums[0] += a[e] * s;
          q_sums[0] += b[e] * s;
        }
      } else {
#pragma unroll
        for (int e = 0; e < kStep; ++e) {
          const uint4 bits = load_held<State, float>(reinterpret_cast<const State*>(state) +
                                                     (first + key + e) * V + first_value());
#pragma unroll
          for (int value = 0; value < kValues; ++value) {
            const float s = element<float>(bits, value);
            if constexpr (rule != Rule::additive) x_sums[value] += a[e] * s;
            q_sums[value] += b[e] * s;
          }
        }
      }
    }
  }

  /// diag(decay) S + sum keys[m] u[m]^T, in place.
  static __device__ void fold(State* state, const float* decay, const float (*keys)[K], const float (*u)[V],
                              int count) {
    constexpr int kStep = kFolded;
    const int first = share() * kKeys, value = first_value();
#pragma unroll 1
    for (int key = first; key < first + kKeys; key += kStep) {
      if constexpr (v_first) {
        State* const at = state + value * K + key;
        const uint4 bits = *reinterpret_cast<const uint4*>(at);
        float s[kVec], x[kVec];
        read(decay + key, 1, x);
#pragma unroll
        for (int e = 0; e < kVec; ++e) s[e] = x[e] * element<State>(bits, e);
        for (int m = 0; m < count; ++m) {
          const float y = u[m][value];
          read(keys[m] + key, 1, x);
#pragma unroll
          for (int e = 0; e < kVec; ++e) s[e] += x[e] * y;
        }
        store_held(at, s);
      } else {
        float s[kStep][kValues], x[kStep];
        read(decay + key, 1, x);
#pragma unroll
        for (int e = 0; e < kStep; ++e) {
          const uint4 bits = load_held<State, float>(state + (key + e) * V + value);
#pragma unroll
          for (int j = 0; j < kValues; ++j) s[e][j] = x[e] * element<float>(bits, j);
        }
        for (int m = 0; m < count; ++m) {
          float y[kValues];
          read(u[m] + value, 1, y);
          read(keys[m] + key, 1, x);
#pragma unroll
          for (int e = 0; e < kStep; ++e) {
#pragma unroll
            for (int j = 0; j < kValues; ++j) s[e][j] += x[e] * y[j];
          }
        }
#pragma unroll
        for (int e = 0; e < kStep; ++e) store_held(state + (key + e) * V + value, s[e]);
      }
    }
  }
};

/// Rows of a ring's tokens, oldest first, in shared memory as they are in memory: k or g of a head, or u.
template <int channels>
struct RingRows {
  static constexpr int kLog2 = std::countr_zero(static_cast<unsigned>(channels));

  char* memory;
  int size;  ///< of an element, in bytes

  __device__ RingRows(char* to, DType dtype) : memory(to), size(is_16_bit(dtype) ? 2 : 4) {}

  /// By all threads; to be waited for with the pipeline's functions and a barrier.
  __device__ void copy(const Rows& rows, const Ring& ring, int head) const {
    const RingRow row(rows, ring, head, 0);
    const bool whole = rows.channel == 1 && (reinterpret_cast<std::uint64_t>(row.first) | row.step) % 16 == 0;
    const int bytes = channels * size, each = whole ? 16 : size,
              parts_log2 = kLog2 - (whole ? size == 2 ? 3 : 2 : 0), parts = 1 << parts_log2;
    const std::uint64_t part_step = whole ? 16 : static_cast<std::uint64_t>(rows.channel * size);
    for (int i = threadIdx.x; i < ring.count << parts_log2; i += kHeadThreads) {
      const int token = i >> parts_log2, part = i & (parts - 1);
      const char* const from = row.at(ring.place(token)) + static_cast<unsigned>(part) * part_step;
      char* const to = memory + token * bytes + part * each;
      if (whole) {
        __pipeline_memcpy_async(to, from, 16);
      } else if (size == 4) {
        __pipeline_memcpy_async(to, from, 4);
      } else {
        *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
      }
    }
  }

  __device__ std::uint32_t bits(int token, int c) const {
    return load_bits(memory + token * channels * size, size == 2, c);
  }
};

/// The channels of a ring's keys and gates. So many teams of threads have each, and take turns with the keys.
template <Inputs inputs, int K, int teams>
struct RingChannels {
  static constexpr int kKeys = teams == 4 ? 4 : 8, kAtOnce = kKeys * teams;

  RingRows<K> k, g;
  DType dtype, gate_dtype;
  bool has_g;

  __device__ RingChannels(char* memory, const DecodeCall& call, const Ring& ring)
      : k(memory, type_of(call.k)),
        g(memory + ring.size * K * k.size, type_of(call.g)),
        dtype(type_of(call.k)),
        gate_dtype(type_of(call.g)),
        has_g(call.has_g) {}

  __device__ void copy(const ReplayCall& replay, const Ring& ring, int head, int key_head) const {
    k.copy(replay.ring.k, ring, key_head);
    if (has_g) g.copy(replay.ring.g, ring, head);
  }

  /// body(last, keys): keys of tokens last, last - 1 and so on, in the frame of the ring's last token; of no
  /// meaning before the first one. Returned is the decay of all.
  template <class Body>
  __device__ float for_each_newest(const ChannelGate& gate, int count, int team, int c, Body&& body) const {
    float suffix = 1;
#pragma unroll 1
    for (int last = count - 1; last >= 0; last -= kAtOnce) {
      const int own = last - team * kKeys;
      float keys[kKeys], decays[kAtOnce] = {}, before = suffix;
      if (has_g) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) decays[j] = to_float(g.bits(max(last - j, 0), c), gate_dtype);
      }
      gate.make_decays(decays);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (j == team * kKeys) before = suffix;
        if (j <= last) suffix *= decays[j];
      }
      if (own < 0) continue;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        keys[j] = before * to_float(k.bits(max(own - j, 0), c), dtype);
#pragma unroll
        for (int other = 0; other < teams; ++other) {
          if (team == other) before *= decays[other * kKeys + j];
        }
      }
      body(own, keys);
    }
    return suffix;
  }

 private:
  static __device__ DType type_of(const Source& source) {
    return inputs == Inputs::bf16 ? DType::bf16 : source.dtype;
  }
};

/// Whether keys and gates take two bytes each.
template <Inputs inputs>
FLA_HOST_DEVICE bool is_narrow(const DecodeCall& call) {
  return inputs == Inputs::bf16 || (is_16_bit(call.k.dtype) && is_16_bit(call.g.dtype));
}

/// Dynamic shared memory: the state, whose place sums and what a fold needs take, then the ring's keys and
/// gates, whose place its u takes.
template <class Head, int K, int V>
struct HeadMemory {
  FLA_HOST_DEVICE static int ring_bytes(int places, bool narrow) {
    const int rows = places * K * 2 * (narrow ? 2 : 4), u = places * V * static_cast<int>(sizeof(float));
    return rows > u ? rows : u;
  }
  FLA_HOST_DEVICE static int state_bytes(int places, bool narrow) {
    const int fold = Head::kSumBytes + places * K * (narrow ? 8 : 12);
    return fold > Head::kBytes ? fold : Head::kBytes;
  }
  FLA_HOST_DEVICE static int bytes(int places, bool narrow) {
    return state_bytes(places, narrow) + ring_bytes(places, narrow);
  }

  char *state, *ring;
  int places;

  __device__ HeadMemory(char* memory, int ring_places, bool narrow)
      : state(memory), ring(memory + state_bytes(ring_places, narrow)), places(ring_places) {}

  __device__ float* sums(int share, int of) const {
    return reinterpret_cast<float*>(state) + (share * 2 + of) * V;
  }
  __device__ float (*keys() const)[K] { return reinterpret_cast<float(*)[K]>(state + Head::kSumBytes); }
  __device__ char* keys_given() const {
    return state + Head::kSumBytes + places * K * static_cast<int>(sizeof(float));
  }
  __device__ float (*u() const)[V] { return reinterpret_cast<float(*)[V]>(ring); }
};

template <Inputs inputs, class State, int K, int V, bool v_first, Rule rule>
__global__ void __launch_bounds__(kHeadThreads, sizeof(State) == 4 ? 3 : 5)
    replay_token(const __grid_constant__ DecodeCall call, const __grid_constant__ ReplayCall replay,
                 std::int64_t first_sequence) {
  using Head = HeadState<State, K, V, v_first>;
  using Channels = RingChannels<inputs, K, kHeadThreads / K>;
  constexpr int kChannelWarps = K / 32;
  alignas(16) __shared__ float x[K], qd[K], decay[K];
  __shared__ float pair_shares[kMostPlaces][2][kChannelWarps], norm_shares[kSums][kChannelWarps];
  __shared__ float2 pairs[kMostPlaces];
  __shared__ Factors factors;
  __shared__ Arrival arrival;

  const int head = blockIdx.y, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int c = thread % K, team = thread / K, value = thread - (kHeadThreads - V);  // of the last V threads
  const auto n = static_cast<unsigned>(first_sequence + blockIdx.z);
  const unsigned key_head = call.group == 1 ? head : head / static_cast<unsigned>(call.group);
  wait_for_kernel_before();
  const std::uint32_t q_bits = fetch<inputs>(call.q, call.q.at(n, 0, key_head, c)),
                      k_bits = fetch<inputs>(call.k, call.k.at(n, 0, key_head, c)),
                      g_bits = fetch<inputs>(call.g, call.g.at(n, 0, head, c)),
                      v_bits = fetch<inputs>(call.v, call.v.at(n, 0, head, value < 0 ? 0 : value));
  const Ring ring = ring_of(replay, n);
  const auto put_o = [&](float o) {
    store(const_cast<void*>(call.o.data), inputs == Inputs::bf16 ? DType::bf16 : call.o.dtype,
          call.o.at(n, 0, head, value), o);
  };
  if (ring.slot < 0) {
    if (value >= 0) put_o(0);
    return;
  }

  const HeadMemory<Head, K, V> memory(shared_memory(), ring.size, is_narrow<inputs>(call));
  const Channels channels(memory.ring, call, ring);
  State* const state =
      static_cast<State*>(call.initial_state.data) + call.initial_state.offset(ring.slot, head);
  if constexpr (Head::kBulk) Head::copy(state, memory.state, arrival);
  channels.copy(replay, ring, head, static_cast<int>(key_head));
  __pipeline_commit();
  if constexpr (!Head::kBulk) Head::copy(state, memory.state, arrival);

  const ChannelGate gate(call, head, c);
  float d[1] = {value_of<inputs>(g_bits, call.g)};
  gate.make_decays(d);
  const float q = value_of<inputs>(q_bits, call.q), k = value_of<inputs>(k_bits, call.k), kd = k * d[0],
              qdecayed = q * d[0];
  if (team == 0) {
    float norms[kSums] = {q * q, k * k, q * k};
    reduce_scatter<32, 1>(norms);
    if (lane % (32 / kSums) == 0) norm_shares[lane / (32 / kSums)][warp] = norms[0];
  }
  __pipeline_wait_prior(Head::kBulk ? 0 : 1);
  __syncthreads();
  const float before =
      channels.for_each_newest(gate, ring.count, team, c, [&](int last, const float(&keys)[Channels::kKeys]) {
        constexpr int kPairs = 2 * Channels::kKeys, kCopies = 32 / kPairs;
        float sums[kPairs];
#pragma unroll
        for (int j = 0; j < Channels::kKeys; ++j)
          sums[2 * j] = kd * keys[j], sums[2 * j + 1] = qdecayed * keys[j];
        reduce_scatter<32, 1>(sums);
        const int pair = lane / kCopies, token = last - pair / 2;
        if (lane % kCopies == 0 && token >= 0) pair_shares[token][pair % 2][warp % kChannelWarps] = sums[0];
      });
  if (team == 0) x[c] = kd * before, qd[c] = qdecayed * before, decay[c] = before;
  Head::wait(arrival);
  __syncthreads();

  RingRows<V>(memory.ring, DType::f32).copy(replay.ring.v, ring, head);
  __pipeline_commit();
  if (thread < ring.count) {
    float sums[2] = {};
#pragma unroll
    for (int w = 0; w < kChannelWarps; ++w) {
      sums[0] += pair_shares[thread][0][w];
      sums[1] += pair_shares[thread][1][w];
    }
    pairs[thread] = {sums[0], sums[1]};
  }
  if (warp == 1) {
    float sums[kSums] = {}, beta = 0;
    if constexpr (rule == Rule::delta)
      beta = value_of<inputs>(fetch<inputs>(call.beta, call.beta.at(n, 0, head, 0)), call.beta);
#pragma unroll
    for (int s = 0; s < kUsedSums<rule>; ++s) {
#pragma unroll
      for (int w = 0; w < kChannelWarps; ++w) sums[s] += norm_shares[s][w];
    }
    if (lane == 0) factors = factors_of<rule>(call, sums, beta);
  }
  float x_sums[Head::kValues] = {}, q_sums[Head::kValues] = {};
  Head::template sum<rule>(memory.state, x, qd, x_sums, q_sums);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Head::kValues; ++j) {
    memory.sums(Head::share(), 0)[Head::first_value() + j] = x_sums[j];
    memory.sums(Head::share(), 1)[Head::first_value() + j] = q_sums[j];
  }
  if (ring.fold) {
    const Channels given(memory.keys_given(), call, ring);
    given.copy(replay, ring, head, static_cast<int>(key_head));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    given.for_each_newest(gate, ring.count, team, c, [&](int last, const float(&keys)[Channels::kKeys]) {
#pragma unroll
      for (int j = 0; j < Channels::kKeys; ++j) {
        if (j <= last) memory.keys()[last - j][c] = keys[j];
      }
    });
  }
  __pipeline_wait_prior(0);
  __syncthreads();

  if (team == 0) append(call, replay, ring, head, 0, c, k_bits, g_bits);
  if (value >= 0) {
    float p = 0, r = 0, p_pairs = 0, r_pairs = 0;
#pragma unroll
    for (int share = 0; share < Head::kShares; ++share) {
      if constexpr (rule != Rule::additive) p += memory.sums(share, 0)[value];
      r += memory.sums(share, 1)[value];
    }
#pragma unroll 4
    for (int i = 0; i < ring.count; ++i) {
      const float y = memory.u()[i][value];
      if constexpr (rule != Rule::additive) p_pairs += pairs[i].x * y;
      r_pairs += pairs[i].y * y;
    }
    const float v = value_of<inputs>(v_bits, call.v);
    const float added = rule == Rule::delta ? factors.beta * (v - factors.k * (p + p_pairs)) : v,
                o = factors.q * (r + r_pairs) + factors.qk * added;
    put_o(rule == Rule::additive && call.normalize ? o / factors.divisor : o);
    *RingValue(replay, ring, head, value).u(ring.count) = added * factors.k;
  }
  if (ring.fold) Head::fold(state, decay, memory.keys(), memory.u(), ring.count);
}

}  // namespace decode_parts
}  // namespace fla::cuda
