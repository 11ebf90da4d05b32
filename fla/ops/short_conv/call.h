#pragma once

#include <cstdint>

#include "fla/ops/common/kernel_views.h"

namespace fla {

inline constexpr int kMinConvWidth = 2, kMaxConvWidth = 4;

/// A valid call of short_conv, below the library's tensors, for kernels of CPUs and GPUs.
struct ShortConvCall {
  std::int64_t T = 0, N = 1, D = 0;
  int W = kMaxConvWidth;
  bool silu = false;
  common::Rows x{}, o{};                ///< [B, T, D]: they have no heads
  common::Parameters weight{}, bias{};  ///< a channel's are `head` apart, its factors `channel`
  /// [slots, D, W - 1]: `key` is the stride of channels, `value` that of inputs. May be the same memory.
  /// initial_state.slots is the pool's size also where there is no initial_state: final_state's, or kAnySlot.
  common::States initial_state{.slots = common::kAnySlot}, final_state{};
  common::Indices read_slots{};   ///< N entries; absent: sequence n has slot n
  common::Indices write_slots{};  ///< N entries; absent: like read_slots. No slot twice in one call
  common::Indices cu_seqlens{};   ///< N + 1 entries; absent: a batch is a sequence, T long
};

}  // namespace fla
