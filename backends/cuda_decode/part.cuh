#pragma once

#include "backends/cuda_decode/token.cuh"

/// What the kernels do with the state of a head, whose part each thread keeps in registers.
namespace fla::cuda {
inline namespace decode_parts {

/// A thread's part of the 16 KiB of a state that four warps have: loads of 16 bytes, as Held.
///
///     [V, K]  a row of keys over neighbouring lanes       [K, V]  a row of values over neighbouring lanes
///             (f32, K = 128: 32 lanes x 4 keys)                   (f32, K = 128: 8 lanes x 4 values)
///
///     warp 0   v0    | l0 k0..3 | l1 k4..7 | .. | l31 |   warp 0   k0   | l0 | l1 | .. | l7  |
///              ..      load i is row i of the warp        ..       k8   | l8 | l9 | .. | l15 |   load 0
///     warp 1   v8    |                                    warp 1   k32  |
///
///     sums over keys: across the lanes of a row           across rows of lanes, then across warps
template <class State, class Held, int K, bool v_first>
struct Part {
  static constexpr int kVec = kVector<Held>, loads = kLoads<Held, K>, tile = kTile<Held, K>;
  static constexpr int kLanes = (v_first ? K : tile) / kVec, kRows = 32 / kLanes;         // of a warp's load
  static constexpr int kKeys = v_first ? kVec : loads, kValues = v_first ? loads : kVec;  // that a thread has
  static constexpr int kShares = v_first ? 1 : kWarps;  // in which sums over keys come

  int lane, warp;  ///< warp: of the four

  __device__ explicit Part(int thread) : lane(thread % 32), warp(thread / 32 % kWarps) {}

  /// Row i of this lane: a value of the tile, or a key. Its elements begin at column().
  __device__ int row(int i) const {
    return v_first ? (warp * loads + i) * kRows + lane / kLanes : (warp * kRows + lane / kLanes) * loads + i;
  }
  __device__ int column() const { return lane % kLanes * kVec; }
  __device__ int first_key() const { return v_first ? column() : row(0); }

  /// Of load 0, of a tile that begins at that value; row_step(V) elements on is the next load.
  __device__ State* find(const States& states, std::int64_t slot, int head, int first_value, int V) const {
    const int at = v_first ? (first_value + row(0)) * K + column() : row(0) * V + first_value + column();
    return static_cast<State*>(states.data) + states.offset(slot, head) + at;
  }
  static __device__ int row_step(int V) { return v_first ? kRows * K : V; }

  __device__ void fetch(const State* from, int V, uint4 (&bits)[loads]) const {
#pragma unroll
    for (int i = 0; i < loads; ++i) bits[i] = load_held<State, Held>(from + i * row_step(V));
  }

  /// Sums over the keys of this warp with x, which Rule::additive has not, and with qd: of a thread's keys,
  /// or in shared memory those of all.
  template <Rule rule>
  __device__ void sum(const uint4 (&bits)[loads], const float (&x)[kKeys], const float (&qd)[kKeys],
                      float (&x_sums)[kShares][tile], float (&q_sums)[kShares][tile]) const {
    float x_sum[kValues] = {}, q_sum[kValues] = {};
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        const float s = element<Held>(bits[i], e);
        const int key = v_first ? e : i, value = v_first ? i : e;
        if constexpr (rule != Rule::additive) x_sum[value] += x[key] * s;
        q_sum[value] += qd[key] * s;
      }
    }
    if constexpr (rule != Rule::additive) scatter(x_sum, x_sums);
    scatter(q_sum, q_sums);
  }

  template <Rule rule>
  __device__ void sum(const uint4 (&bits)[loads], const float* x_of_all, const float* qd_of_all,
                      float (&x_sums)[kShares][tile], float (&q_sums)[kShares][tile]) const {
    float x[kKeys] = {}, qd[kKeys];
    if constexpr (rule != Rule::additive) read(x_of_all + first_key(), 1, x);
    read(qd_of_all + first_key(), 1, qd);
    sum<rule>(bits, x, qd, x_sums, q_sums);
  }

  /// The state as floats, to be changed: diag(d) S, then + k u^T.
  using Floats = float[loads][kVec];
  __device__ void decayed(const uint4 (&bits)[loads], const float* decays, Floats& s) const {
    float d[kKeys];
    read(decays + first_key(), 1, d);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) s[i][e] = d[v_first ? e : i] * element<Held>(bits[i], e);
    }
  }
  __device__ void decay(const float* decays, Floats& s) const {
    float d[kKeys];
    read(decays + first_key(), 1, d);
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) s[i][e] *= d[v_first ? e : i];
    }
  }
  __device__ void add(const float* keys, const float* values, Floats& s) const {
    float k[kKeys], u[kValues];
    read(keys + first_key(), 1, k);
    if constexpr (v_first) {
#pragma unroll
      for (int i = 0; i < loads; ++i) u[i] = values[row(i)];
    } else {
      read(values + column(), 1, u);
    }
#pragma unroll
    for (int i = 0; i < loads; ++i) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) s[i][e] += k[v_first ? e : i] * u[v_first ? i : e];
    }
  }
  __device__ void put(const Floats& s, int V, State* to) const {
#pragma unroll
    for (int i = 0; i < loads; ++i) store_held(to + i * row_step(V), s[i]);
  }

  /// A token alone, of the state as it was fetched: diag(d) S + k u^T.
  __device__ void update(uint4 (&bits)[loads], const float* decays, const float* keys, const float* values,
                         int V, State* to) const {
    float d[kKeys], k[kKeys], u[kValues];
    read(decays + first_key(), 1, d);
    read(keys + first_key(), 1, k);
    if constexpr (v_first) {
#pragma unroll
      for (int i = 0; i < loads; ++i) u[i] = values[row(i)];
    } else {
      read(values + column(), 1, u);
    }
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      forget<Held>(bits[i]);
      float s[kVec];
#pragma unroll
      for (int e = 0; e < kVec; ++e)
        s[e] = d[v_first ? e : i] * element<Held>(bits[i], e) + k[v_first ? e : i] * u[v_first ? i : e];
      store_held(to + i * row_step(V), s);
    }
  }

 private:
  template <int count>
  __device__ void scatter(float (&sum)[count], float (&sums)[kShares][tile]) const {
    if constexpr (v_first) {
      reduce_scatter<kLanes, 1>(sum);
      static_assert(kLanes >= loads);  // so that a lane is left with one sum
      constexpr int kCopies = kLanes / loads;
      if (lane % kCopies == 0) sums[0][row(lane % kLanes / kCopies)] = sum[0];
    } else {
      reduce_scatter<kRows, kLanes>(sum);
      static_assert(kVec >= kRows);
      constexpr int kHeld = kVec / kRows;
#pragma unroll
      for (int j = 0; j < kHeld; ++j) sums[warp][column() + lane / kLanes * kHeld + j] = sum[j];
    }
  }
};

}  // namespace decode_parts
}  // namespace fla::cuda
