#pragma once

#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/kda/cuda/kda_call.h"

/// Which tokens and which state a sequence has. Whatever the indices hold, what comes out lies inside the
/// tensors.
namespace fla::cuda {

__device__ inline std::int64_t load_index(const Indices& indices, std::int64_t i) {
  const std::int64_t at = i * indices.stride;
  return indices.wide ? static_cast<const std::int64_t*>(indices.data)[at]
                      : static_cast<const std::int32_t*>(indices.data)[at];
}

struct Sequence {
  std::int64_t batch, begin, end;
};

__device__ inline std::int64_t sequence_begin(const KdaCall& call, std::int64_t n) {
  const std::int64_t at = load_index(call.cu_seqlens, n);
  return at < 0 ? 0 : at > call.T ? call.T : at;
}

__device__ inline Sequence sequence_of(const KdaCall& call, std::int64_t n) {
  if (!call.cu_seqlens.data) return {n, 0, call.T};
  const std::int64_t begin = sequence_begin(call, n), end = sequence_begin(call, n + 1);
  return {0, begin, end < begin ? begin : end};
}

/// Where sequence n's states are; negative: nowhere.
struct Slots {
  std::int64_t read, write;
};

template <class Call>
__device__ Slots slots_of(const Call& call, std::int64_t n) {
  Slots slots{n, n};
  if (call.read_slots.data) slots.read = slots.write = load_index(call.read_slots, n);
  if (call.write_slots.data) slots.write = load_index(call.write_slots, n);
  const States& pool = call.initial_state.data ? call.initial_state : call.final_state;
  if (pool.data && slots.read >= pool.slots) slots.read = -1;
  if (pool.data && slots.write >= pool.slots) slots.write = -1;
  return slots;
}

/// Where a head's state begins.
__device__ inline std::int64_t state_offset(const States& states, std::int64_t slot, int head) {
  return slot * states.slot + head * states.head;
}

/// A thread's elements of a head's state: number i is [key(i), value(i)]; those that are not there are zero.
/// The dtype is looked at once, so that all loads are under way together.
template <int count, class Key, class Value, class There>
__device__ void load_state(const States& states, std::int64_t slot, int head, Key&& key, Value&& value,
                           There&& there, float (&s)[count]) {
  const auto load_all = [&](const auto* data, auto&& to_float) {
    data += state_offset(states, slot, head);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      s[i] = there(i) ? to_float(data[key(i) * states.key + value(i) * states.value]) : 0;
    }
  };
  if (!states.data) {
#pragma unroll
    for (int i = 0; i < count; ++i) s[i] = 0;
  } else if (states.dtype == DType::f32) {
    load_all(static_cast<const float*>(states.data), [](float x) { return x; });
  } else {
    load_all(static_cast<const __nv_bfloat16*>(states.data),
             [](__nv_bfloat16 x) { return __bfloat162float(x); });
  }
}

template <int count, class Key, class Value, class There>
__device__ void store_state(const States& states, std::int64_t slot, int head, Key&& key, Value&& value,
                            There&& there, const float (&s)[count]) {
  if (!states.data || slot < 0) return;
  with_type(states.dtype, [&]<class T>(T*) {
    T* const data = static_cast<T*>(states.data) + state_offset(states, slot, head);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (there(i)) assign(data[key(i) * states.key + value(i) * states.value], s[i]);
    }
  });
}

}  // namespace fla::cuda
