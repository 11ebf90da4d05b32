#pragma once

#include "backends/flash_kda/prep/shared.cuh"
#include "backends/flash_kda/range.cuh"

/// How a task is to be scaled: its scaling warps vote, and all of prep follows.
namespace fla::flash_kda {

/// Bits of a vote, beside kOdd and kScaled (range.cuh): a run of 8 tokens decays by more than 2^-2, by more
/// than 2^-59.
inline constexpr std::uint32_t kSteep = 1, kStrong = 2;
inline constexpr std::uint32_t kLost = 16;  ///< the first bit of what prep_odd leaves to prep_lose

/// All votes, or-ed.
FLA_DEVICE std::uint32_t votes_of(Smem at) {
  const U4 x = load_u32x4(at + Prep::vote), y = load_u32x4(at + Prep::vote + 4 * 4);
  return uniform(x.x | x.y | x.z | x.w | y.x | y.y | y.z | y.w);
}

enum class Way : std::uint32_t {
  gentle,  ///< slow gates: the pairs in f16, for their errors add up
  steep,   ///< the pairs in bf16, for the range
  exact,   ///< no reference is near enough to all tokens
};
FLA_DEVICE Way way_of(std::uint32_t votes) {
  return (votes & kStrong) != 0 ? Way::exact : (votes & kSteep) != 0 ? Way::steep : Way::gentle;
}

/// Step 2: products of the decays of a warp's tokens, and its vote beside those that are known.
FLA_DEVICE void prep_tally(Smem smem, std::uint32_t warp, std::uint32_t lane, const float (&a)[8][4],
                           bool odd, std::uint32_t votes = 0) {
  float run[4];
#pragma unroll
  for (int c = 0; c < 4; ++c)
    run[c] = ((a[0][c] * a[1][c]) * (a[2][c] * a[3][c])) * ((a[4][c] * a[5][c]) * (a[6][c] * a[7][c]));
  store(smem + Prep::run + warp * Prep::row + lane * Prep::lane, F4{run[0], run[1], run[2], run[3]});
  const auto below = [&](float x) { return any(run[0] < x || run[1] < x || run[2] < x || run[3] < x); };
  const bool is_decay = run[0] <= kWeakestDecay && run[1] <= kWeakestDecay && run[2] <= kWeakestDecay &&
                        run[3] <= kWeakestDecay;  // NaN is none
  if (below(0x1p-2f)) votes |= kSteep;
  if (below(0x1p-59f)) votes |= kStrong;
  if (any(odd || !is_decay)) votes |= kOdd;
  if (lane == 0) store(smem + Prep::vote + 4 * warp, votes);
}

}  // namespace fla::flash_kda
