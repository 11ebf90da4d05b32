#pragma once

#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

/// A sequence's state, between memory and registers.
namespace fla::cuda {

/// A thread's elements of a head's state: number i is [key(i), value(i)]; those that are not there are zero.
/// The dtype is looked at once, so that all loads are under way together.
template <int count, class Key, class Value, class There>
__device__ void load_state(const States& states, std::int64_t slot, int head, Key&& key, Value&& value,
                           There&& there, float (&s)[count]) {
  const auto load_all = [&](const auto* data, auto&& to_float) {
    data += states.offset(slot, head);
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
    T* const data = static_cast<T*>(states.data) + states.offset(slot, head);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (there(i)) assign(data[key(i) * states.key + value(i) * states.value], s[i]);
    }
  });
}

/// Stores a thread's elements, as above, where a checkpoint of sequence n is due before token `end` of its
/// batch. All that takes registers from the loop around it is done here: where the sequence begins is looked
/// up again, and elements go one by one, from local memory.
template <int count, class Key, class Value, class There>
__device__ void store_checkpoint(const RecurrenceCall& call, const Checkpoints& checkpoints, std::int64_t n,
                                 std::int64_t end, int head, Key&& key, Value&& value, There&& there,
                                 const float (&s)[count]) {
  const std::int64_t slot = checkpoints.slot_after(n, end - sequence_of(call, n).begin);
  if (slot < 0) return;
  const States states = checkpoints.of(n);
  float kept[count];
#pragma unroll
  for (int i = 0; i < count; ++i) kept[i] = s[i];
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const std::int64_t at = states.offset(slot, head) + key(i) * states.key + value(i) * states.value;
    if (there(i)) store(states.data, states.dtype, at, kept[i]);
  }
}

}  // namespace fla::cuda
