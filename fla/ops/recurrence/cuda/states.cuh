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

}  // namespace fla::cuda
