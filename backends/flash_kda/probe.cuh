#pragma once

#include "backends/flash_kda/ptx.cuh"

/// Where the cycles of a kernel go: with FLA_FLASH_PROBE, mark(i) adds what has passed since the mark before
/// to sum i of its warpgroup. Otherwise nothing.
namespace fla::flash_kda {

inline constexpr int kMarks = 15;  // place 15: the clock at the last mark

struct Probe {
#ifdef FLA_FLASH_PROBE
  Smem at;  ///< u32 [16] of the warpgroup
  bool on;  ///< its first thread
  FLA_DEVICE void begin() {
    if (!on) return;
    for (int i = 0; i < kMarks; ++i) store(at + 4 * i, std::uint32_t(0));
    store(at + 4 * kMarks, clock_now());
  }
  FLA_DEVICE void mark(int i) {
    if (!on) return;
    const std::uint32_t now = clock_now();
    store(at + 4 * i, load_u32(at + 4 * i) + now - load_u32(at + 4 * kMarks));
    store(at + 4 * kMarks, now);
  }
  FLA_DEVICE void end(std::uint32_t* to) {
    if (!on || !to) return;
    for (int i = 0; i < kMarks; ++i) to[i] = load_u32(at + 4 * i);
  }
#else
  FLA_DEVICE Probe(Smem, bool) {}
  FLA_DEVICE void begin() {}
  FLA_DEVICE void mark(int) {}
  FLA_DEVICE void end(std::uint32_t*) {}
#endif
};

}  // namespace fla::flash_kda
