#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "emulated_ptx.h"
#include "tests/emulation/device.h"

/// Integers small enough to be exact in every format, against plain products.
namespace fla::flash_kda {
namespace {

using emulation::Device;
using emulation::Kernel;
using emulation::text_of;

/// In [-1, 4], with no pattern that a wrong layout could share.
int number(std::uint32_t i, std::uint32_t j, std::uint32_t which) {
  return static_cast<int>((i * 2654435761u + j * 40503u + which * 97u) >> 7) % 4 -
         static_cast<int>((i + 3 * j + which) % 3) + 1;
}
std::uint16_t bits(int x, Half16 type) {
  const std::uint32_t pair =
      type == Half16::bf16 ? pack_bf16(static_cast<float>(x), 0) : pack_f16(static_cast<float>(x), 0);
  return static_cast<std::uint16_t>(pair);
}
std::uint32_t pair_of(int low, int high, Half16 type) {
  return bits(low, type) | static_cast<std::uint32_t>(bits(high, type)) << 16;
}
/// Byte of (row, column) in a tile with 128-byte rows in the 128-byte swizzle.
std::uint32_t swizzled(std::uint32_t row, std::uint32_t column) {
  return row * 128 + ((2 * column) ^ (row % 8 << 4));
}
std::uint64_t descriptor(Smem at, std::uint32_t leading, std::uint32_t stride) {
  return at >> 4 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | std::uint64_t{1} << 62;
}

TEST(EmulatedMatrices, AMatrixInRegistersIsTransposed) {
  Device device;
  const auto results = device.buffer<std::uint32_t>("results", 32);
  const Kernel kernel{.name = "transposed", .threads = 32, .body = [&](Smem) {
                        const std::uint32_t element = 10 * (thread() / 4) + 2 * (thread() % 4);
                        results[thread()] = transposed(element | (element + 1) << 16);
                      }};
  ASSERT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t element = 10 * (2 * (lane % 4)) + lane / 4;
    EXPECT_EQ(results[lane], element | (element + 10) << 16);
  }
}

TEST(EmulatedMatrices, LdmatrixAndStmatrixHaveTheRowsThatLanesName) {
  for (const bool transposed : {false, true}) {
    Device device;
    const auto loaded = device.buffer<std::uint32_t>("loaded", 32 * 4),
               stored = device.buffer<std::uint32_t>("stored", 32 * 4);
    const Kernel kernel{.name = "matrices", .threads = 32, .shared_bytes = 2048, .body = [&](Smem smem) {
                          const std::uint32_t lane = thread();
                          // Row r of matrix m, elements 100 m + 10 r + c, 32 bytes apart in an order of its
                          // own.
                          const Smem row = smem + 32 * ((lane * 5) % 32);
                          for (std::uint32_t c = 0; c < 8; ++c)
                            store(row + 2 * c,
                                  static_cast<std::uint16_t>(100 * (lane / 8) + 10 * (lane % 8) + c));
                          warp_sync();
                          std::uint32_t r[4];
                          transposed ? ldmatrix_trans(r, row) : ldmatrix(r, row);
                          for (std::uint32_t m = 0; m < 4; ++m) loaded[4 * lane + m] = r[m];
                          const Smem other = smem + 1024 + 16 * lane;
                          transposed ? stmatrix_trans(other, r[0], r[1], r[2], r[3])
                                     : stmatrix(other, r[0], r[1], r[2], r[3]);
                          warp_sync();
                          for (std::uint32_t i = 0; i < 4; ++i)
                            stored[4 * lane + i] = load_u32(other + 4 * i);
                        }};
    ASSERT_EQ(text_of(device.run({kernel})), "");
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (std::uint32_t m = 0; m < 4; ++m) {
        std::uint32_t expected = 0;
        for (std::uint32_t e = 0; e < 2; ++e) {
          const std::uint32_t row = transposed ? 2 * (lane % 4) + e : lane / 4;
          const std::uint32_t column = transposed ? lane / 4 : 2 * (lane % 4) + e;
          expected |= (100 * m + 10 * row + column) << (16 * e);
        }
        EXPECT_EQ(loaded[4 * lane + m], expected);
        const std::uint32_t there = 100 * (lane / 8) + 10 * (lane % 8) + 2 * m;
        EXPECT_EQ(stored[4 * lane + m], there | (there + 1) << 16);
      }
  }
}

template <Half16 type>
void check_mma() {
  Device device;
  const auto results = device.buffer<float>("results", 16 * 8);
  const Kernel kernel{.name = "mma", .threads = 32, .body = [&](Smem) {
                        const std::uint32_t g = thread() / 4, t = thread() % 4;
                        std::uint32_t a[4], b[2];
                        for (std::uint32_t i = 0; i < 4; ++i) {
                          const std::uint32_t row = g + 8 * (i % 2), k = 2 * t + 8 * (i / 2);
                          a[i] = pair_of(number(row, k, 0), number(row, k + 1, 0), type);
                        }
                        for (std::uint32_t i = 0; i < 2; ++i)
                          b[i] = pair_of(number(g, 2 * t + 8 * i, 1), number(g, 2 * t + 8 * i + 1, 1), type);
                        float c[4] = {1, 2, 3, 4};
                        mma<type>(c, a, b[0], b[1]);
                        for (std::uint32_t i = 0; i < 4; ++i)
                          results[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
                      }};
  ASSERT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 16; ++i)
    for (std::uint32_t j = 0; j < 8; ++j) {
      int sum = static_cast<int>(1 + i / 8 * 2 + j % 2);
      for (std::uint32_t k = 0; k < 16; ++k) sum += number(i, k, 0) * number(j, k, 1);
      EXPECT_EQ(results[8 * i + j], static_cast<float>(sum));
    }
}
TEST(EmulatedMatrices, MmaIsAPlainProduct) {
  check_mma<Half16::bf16>();
  check_mma<Half16::f16>();
}

/// d (64 x n) over k = 32, two instructions in one group, beginning with 1000 in every accumulator and either
/// taking it along or not.
template <int n, Half16 type, int trans, bool registers, int sign>
void check_wgmma(bool add) {
  Device device;
  const auto results = device.buffer<float>("results", 64 * n);
  constexpr std::uint32_t a_bytes = 64 * 128, b_bytes = trans ? 32 * 128 * ((n + 63) / 64) : n * 128;
  constexpr std::uint32_t shared = a_bytes + b_bytes;
  const Kernel kernel{
      .name = "wgmma", .threads = 128, .shared_bytes = shared, .body = [&](Smem smem) {
        const std::uint32_t tid = thread(), w = tid / 32, g = tid % 32 / 4, t = tid % 4;
        const Smem at_a = smem, at_b = smem + a_bytes;
        for (std::uint32_t i = tid; i < 64 * 32; i += 128)
          store(at_a + swizzled(i / 32, i % 32), bits(number(i / 32, i % 32, 0), type));
        for (std::uint32_t i = tid; i < n * 32; i += 128) {
          const std::uint32_t column = i / 32, k = i % 32;
          const std::uint32_t at =
              trans ? column / 64 * 32 * 128 + swizzled(k, column % 64) : swizzled(column, k);
          store(at_b + at, bits(number(column, k, 1), type));
        }
        fence_async_shared();
        barrier(Barrier{1}, 128);
        float d[n / 2];
        for (float& x : d) x = 1000;
        std::uint32_t a[8];
        for (std::uint32_t i = 0; i < 8; ++i) {
          const std::uint32_t row = 16 * w + g + 8 * (i % 2), k = 16 * (i / 4) + 2 * t + 8 * (i / 2 % 2);
          a[i] = pair_of(number(row, k, 0), number(row, k + 1, 0), type);
        }
        wgmma_fence();
        for (std::uint32_t kk = 0; kk < 2; ++kk) {
          const std::uint64_t b =
              trans ? descriptor(at_b + kk * 2048, 32 * 128, 1024) : descriptor(at_b + kk * 32, 16, 1024);
          if constexpr (registers)
            wgmma_rs<n, sign, trans>(d, a + 4 * kk, b, add || kk > 0);
          else
            wgmma_ss<n, type, trans>(d, descriptor(at_a + kk * 32, 16, 1024), b, add || kk > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        for (std::uint32_t i = 0; i < n / 2; ++i)
          results[(16 * w + g + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + 2 * t + i % 2] = d[i];
      }};
  ASSERT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 64; ++i)
    for (std::uint32_t j = 0; j < n; ++j) {
      int sum = 0;
      for (std::uint32_t k = 0; k < 32; ++k) sum += number(i, k, 0) * number(j, k, 1);
      ASSERT_EQ(results[n * i + j], static_cast<float>(sign * sum + (add ? 1000 : 0))) << i << ", " << j;
    }
}
TEST(EmulatedMatrices, WgmmaReadsBothOperandsByDescriptor) {
  check_wgmma<32, Half16::bf16, 0, false, 1>(false);
  check_wgmma<64, Half16::bf16, 0, false, 1>(true);
  check_wgmma<64, Half16::f16, 0, false, 1>(false);
  check_wgmma<128, Half16::f16, 0, false, 1>(true);
}
TEST(EmulatedMatrices, WgmmaReadsAnMnMajorOperand) {
  check_wgmma<64, Half16::f16, 1, false, 1>(false);
  check_wgmma<128, Half16::f16, 1, false, 1>(true);
  check_wgmma<128, Half16::bf16, 1, false, 1>(false);
}
TEST(EmulatedMatrices, WgmmaTakesAFromRegistersWithASign) {
  check_wgmma<64, Half16::f16, 0, true, 1>(false);
  check_wgmma<128, Half16::f16, 1, true, -1>(true);
}

TEST(EmulatedNumbers, F16ClampsAndBf16Overflows) {
  EXPECT_EQ(pack_f16(65519.0f, -1e30f), 0xfbff7bffu);
  EXPECT_EQ(pack_f16(std::bit_cast<float>(0x7f800000u), 0x1p-24f), 0x00017bffu);
  EXPECT_EQ(pack_f16(NAN, 1.0f), 0x3c007fffu);
  EXPECT_EQ(pack_bf16(3.4e38f, 1.0f), 0x3f807f80u);
  EXPECT_EQ(pack_bf16(1.00390625f, 1.01171875f), 0x3f823f80u);  // ties go to even
  EXPECT_EQ(scale_f16(pack_f16(3.0f, 0x1p-20f), 0.0625f), pack_f16(0.1875f, 0x1p-24f));
}

TEST(EmulatedNumbers, ApproximationsFlushSubnormals) {
  EXPECT_EQ(ex2(3.0f), 8.0f);
  EXPECT_EQ(ex2(-126.0f), 0x1p-126f);
  EXPECT_EQ(ex2(-127.0f), 0.0f);
  EXPECT_EQ(rcp(0x1p127f), 0.0f);
  EXPECT_EQ(rcp(0x1p-130f), std::bit_cast<float>(0x7f800000u));
  EXPECT_EQ(rsqrt_of(0.25f), 2.0f);
}

}  // namespace
}  // namespace fla::flash_kda
