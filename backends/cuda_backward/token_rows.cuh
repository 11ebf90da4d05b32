#pragma once

#include "backends/cuda_backward/outputs.cuh"

/// Inputs of chunks whose gates have a number a token. Rows, tokens x channels or values, are operands of
/// warpgroups once they are f16. Either side of them can be contracted over, so nothing is transposed.
namespace fla::cuda_backward {

/// Rows with norm 1 in f16, in place, and the inverses of the norms that they had.
class Normalized {
 public:
  __device__ Normalized(SplitRows& rows, DType dtype) : rows_(rows) {
    float sums[kRows] = {};
    int i = 0;
    with_own_pieces<kBlockThreads>(rows, [&](int, const uint4& words) {
      for (const std::uint32_t word : {words.x, words.y, words.z, words.w}) {
        const float2 x = unpack(word, dtype);
        sums[i] += x.x * x.x + x.y * x.y;
      }
      ++i;
    });
#pragma unroll
    for (int r = 0; r < kRows; ++r) norms_[r] = rsqrtf(reduce<16>(sums[r]) + 1e-6f);
    i = 0;
    with_own_pieces<kBlockThreads>(rows, [&](int, uint4& words) {
      change_words(words, [&](std::uint32_t word) {
        const float2 x = unpack(word, dtype);
        return pack_f16(norms_[i] * x.x, norms_[i] * x.y);
      });
      ++i;
    });
  }
  __device__ void store_norms(float (&to)[kTokens]) const {
    int i = 0;
    with_own_pieces<kBlockThreads>(rows_, [&](int t, const uint4&) {
      if (threadIdx.x % 16 == 0) to[t] = norms_[i];
      ++i;
    });
  }

 private:
  static constexpr int kRows = kTokens * (kHead / 8) / kBlockThreads;
  SplitRows& rows_;
  float norms_[kRows];
};

/// d = A B, or d += A B, of a warpgroup, over `count` of k: left(k) and right(k) are operands from there on.
template <bool add, class Left, class Right>
__device__ void begin_all(Slice<kTokenTiles>& d, int count, Left&& left, Right&& right) {
  keep(d);
  begin_products();
  add_product<add>(d, left(0), right(0));
#pragma unroll
  for (int k = 16; k < count; k += 16) add_product(d, left(k), right(k));
  end_products();
}
__device__ inline void end_all(Slice<kTokenTiles>& d) {
  wait_for_products<0>();
  keep(d);
}

/// Calls body(n, r, x) for the warp's 16 columns of rows: two tokens of channel `channel` + g + 8 r.
template <class Body>
__device__ void with_columns(const SplitRows& rows, int channel, Body&& body) {
#pragma unroll
  for (int s = 0; s < kTokenTiles / 2; ++s) {
    const uint4 words = left_of_transposed(rows, channel, 16 * s);
    const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) body(2 * s + i / 2, i % 2, word[i]);
  }
}
}  // namespace fla::cuda_backward
