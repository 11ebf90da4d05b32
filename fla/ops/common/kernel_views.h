#pragma once

#include <cstdint>
#include <limits>

#include "fla/core/dtype.h"

/// Tensors as kernels see them, on CPUs and GPUs: plain pointers, and strides that count elements. No data:
/// the argument is absent. views_of.h makes them.
#ifdef __CUDACC__
#define FLA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FLA_HOST_DEVICE inline
#endif

namespace fla {

/// The tokens of a sequence, and the batch that they lie in.
struct Sequence {
  std::int64_t batch, begin, end;
};

/// Where sequence n of a call with cu_seqlens begins.
template <class Call>
FLA_HOST_DEVICE std::int64_t sequence_begin(const Call& call, std::int64_t n) {
  const std::int64_t at = call.cu_seqlens[n];
  return at < 0 ? 0 : at > call.T ? call.T : at;
}

/// Whatever cu_seqlens holds, the tokens lie inside the tensors.
template <class Call>
FLA_HOST_DEVICE Sequence sequence_of(const Call& call, std::int64_t n) {
  if (!call.cu_seqlens.data) return {n, 0, call.T};
  const std::int64_t begin = sequence_begin(call, n), end = sequence_begin(call, n + 1);
  return {0, begin, end < begin ? begin : end};
}

namespace common {

/// [B, T, heads, channels]. beta has no channels.
struct Rows {
  void* data = nullptr;
  DType dtype = DType::f32;
  bool packed = false;  ///< four neighbouring channels can be read at once
  std::int64_t batch = 0, token = 0, head = 0, channel = 0;
};

/// [slots, HV, K, V] in whichever layout: `key` and `value` are the strides of those axes.
struct States {
  void* data = nullptr;
  DType dtype = DType::f32;  ///< f32 or bf16
  std::int64_t slots = 0, slot = 0, head = 0, key = 0, value = 0;

  /// Where a head's state begins.
  FLA_HOST_DEVICE std::int64_t offset(std::int64_t of_slot, std::int64_t of_head) const {
    return of_slot * slot + of_head * head;
  }
};

struct Indices {
  const void* data = nullptr;
  bool wide = false;  ///< int64 instead of int32
  bool on_host =
      false;  ///< read before the launch returns; kernels of GPUs only ever see those on the device
  std::int64_t stride = 1;

  FLA_HOST_DEVICE std::int64_t operator[](std::int64_t i) const {
    const std::int64_t at = i * stride;
    return wide ? static_cast<const std::int64_t*>(data)[at] : static_cast<const std::int32_t*>(data)[at];
  }
};

/// [N, C].
struct IndexRows {
  Indices first{};       ///< the first row
  std::int64_t row = 0;  ///< from one row to the next

  FLA_HOST_DEVICE Indices operator[](std::int64_t n) const {
    Indices own = first;
    own.data = static_cast<const char*>(first.data) + n * row * (first.wide ? 8 : 4);
    return own;
  }
};

/// [HV] or [HV, K].
struct Parameters {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t head = 0, channel = 0;
};

/// What g holds: log-decays, or the input of a gate.
enum class GateInput : std::uint8_t { given, softplus, bounded };

/// The slots in which a sequence's state is read and written; negative: not at all.
template <class Int>
struct SlotsAs {
  Int read, write;
};
using Slots = SlotsAs<std::int64_t>;

/// The size of a pool that no index is outside of.
inline constexpr std::int64_t kAnySlot = std::numeric_limits<std::int64_t>::max();

template <class Int>
FLA_HOST_DEVICE Int slot_in(const States& pool, std::int64_t index) {
  return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(pool.slots) ? static_cast<Int>(index)
                                                                                    : Int{-1};
}

/// Those of a call's sequence n, which has slot n where there are no indices, and writes the slot that it
/// reads where no other is named. An index outside of its pool counts as negative.
template <class Int = std::int64_t, class Call>
FLA_HOST_DEVICE SlotsAs<Int> slots_of(const Call& call, std::int64_t n) {
  const std::int64_t read = call.read_slots.data ? call.read_slots[n] : n;
  const Int slot = slot_in<Int>(call.initial_state, read);
  return {slot, slot_in<Int>(call.final_state, call.write_slots.data ? call.write_slots[n] : read)};
}

}  // namespace common
}  // namespace fla
