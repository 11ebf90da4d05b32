#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "emulated_ptx.h"
#include "tests/emulation/device.h"

namespace fla::flash_kda {
namespace {

using emulation::Device;
using emulation::Kernel;
using emulation::tensor_map;
using emulation::text_of;

/// One thread copies a box in and sees it when its bytes are there; then it copies it out.
template <class Load, class Store>
Kernel round_trip(std::uint32_t shared, std::uint32_t bytes, const Load& load, const Store& back) {
  return {.name = "round trip", .threads = 32, .shared_bytes = shared, .body = [=](Smem smem) {
            if (thread() != 0) return;
            const Smem bar = smem + shared - 8;
            Patience patience;
            mbar_init(bar, 1);
            mbar_init_fence();
            mbar_expect(bar, bytes);
            load(smem, bar);
            mbar_wait(bar, 0, patience);
            back(smem);
            bulk_commit();
            bulk_wait();
          }};
}

TEST(EmulatedCopies, BulkCopiesMoveBytesAsTheyAre) {
  Device device;
  const auto from = device.buffer<std::uint32_t>("from", 64), to = device.buffer<std::uint32_t>("to", 64);
  for (std::uint32_t i = 0; i < 64; ++i) from[i] = i * 77;
  const Kernel kernel = round_trip(
      1024, 192, [&](Smem smem, Smem bar) { bulk_load(smem + 64, &from[8], 192, bar); },
      [&](Smem smem) { bulk_store(&to[4], smem + 64, 192); });
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(to[i], i >= 4 && i < 52 ? (i + 4) * 77 : ~0u);
}

struct Tensor4 {
  static constexpr std::uint64_t channels = 128, heads = 3, tokens = 10, batches = 2,
                                 row = channels * heads + 24;
  static std::uint16_t value(std::uint64_t c, std::uint64_t h, std::uint64_t t, std::uint64_t b) {
    return static_cast<std::uint16_t>(1 + c + 131 * (h + 5 * (t + 11 * b)));
  }
  explicit Tensor4(Device& device, const char* name)
      : data(device.buffer<std::uint16_t>(name, row * tokens * batches)) {}
  std::uint16_t& at(std::uint64_t c, std::uint64_t h, std::uint64_t t, std::uint64_t b) const {
    return data[(b * tokens + t) * row + h * channels + c];
  }
  TensorMap map(std::uint32_t box_tokens) const {
    return tensor_map(data.data(), 2, std::array{channels, heads, tokens, batches},
                      std::array<std::uint64_t, 3>{2 * channels, 2 * row, 2 * row * tokens},
                      std::array<std::uint32_t, 4>{64, 1, box_tokens, 1});
  }
  std::span<std::uint16_t> data;
};

TEST(EmulatedCopies, TmaSwizzlesRowsAndReadsZerosOutsideTheTensor) {
  Device device;
  const Tensor4 tensor(device, "tensor");
  for (std::uint64_t b = 0; b < 2; ++b)
    for (std::uint64_t t = 0; t < 10; ++t)
      for (std::uint64_t h = 0; h < 3; ++h)
        for (std::uint64_t c = 0; c < 128; ++c) tensor.at(c, h, t, b) = Tensor4::value(c, h, t, b);
  const auto tile = device.buffer<std::uint16_t>("tile", 16 * 64);
  const TensorMap map = tensor.map(16);
  const Kernel kernel = round_trip(
      4096, 16 * 128, [&](Smem smem, Smem bar) { tma_load(smem, &map, bar, 64, 2, 6, 1); },
      [&](Smem smem) { bulk_store(tile.data(), smem, 16 * 128); });
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t row = 0; row < 16; ++row)
    for (std::uint32_t c = 0; c < 64; ++c) {
      const std::uint32_t at = (row * 128 + ((2 * c) ^ (row % 8 << 4))) / 2;
      EXPECT_EQ(tile[at], row < 4 ? Tensor4::value(64 + c, 2, 6 + row, 1) : 0) << row << ", " << c;
    }
}

TEST(EmulatedCopies, TmaWritesNothingOutsideTheTensor) {
  Device device;
  const Tensor4 from(device, "from"), to(device, "to");
  for (std::uint64_t t = 0; t < 10; ++t)
    for (std::uint64_t c = 0; c < 128; ++c) from.at(c, 1, t, 0) = Tensor4::value(c, 1, t, 0);
  const TensorMap in = from.map(8), out = to.map(8);
  const Kernel kernel = round_trip(
      4096, 8 * 128, [&](Smem smem, Smem bar) { tma_load(smem, &in, bar, 0, 1, 2, 0); },
      [&](Smem smem) { tma_store(&out, smem, 64, 0, 5, 0); });
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint64_t i = 0; i < to.data.size(); ++i) {
    const std::uint64_t c = i % Tensor4::row, t = i / Tensor4::row;
    const bool written = c >= 64 && c < 128 && t >= 5 && t < 10;
    EXPECT_EQ(to.data[i], written ? Tensor4::value(c - 64, 1, t - 3, 0) : 0xffff) << c << ", " << t;
  }
}

TEST(EmulatedCopies, TmaMovesBoxesOfRankTwoAndFive) {
  Device device;
  const auto flat = device.buffer<float>("flat", 6 * 20);
  const auto deep = device.buffer<float>("deep", 4 * 3 * 3 * 3 * 3);
  const auto tiles = device.buffer<float>("tiles", 3 * 8 + 4 * 16);
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < deep.size(); ++i) deep[i] = static_cast<float>(1000 + i);
  const TensorMap two =
      tensor_map(flat.data(), 4, std::array<std::uint64_t, 2>{20, 6}, std::array<std::uint64_t, 1>{80},
                 std::array<std::uint32_t, 2>{8, 3}, false);
  const TensorMap five = tensor_map(deep.data(), 4, std::array<std::uint64_t, 5>{4, 3, 3, 3, 3},
                                    std::array<std::uint64_t, 4>{16, 48, 144, 432},
                                    std::array<std::uint32_t, 5>{4, 2, 2, 2, 2}, false);
  const Kernel kernel = round_trip(
      1024, 96 + 256,
      [&](Smem smem, Smem bar) {
        const int at2[] = {-2, 4}, at5[] = {0, 1, 0, 2, 1};
        emulation::tma_load(smem, two, bar, at2, 2, {});
        emulation::tma_load(smem + 128, five, bar, at5, 5, {});
      },
      [&](Smem smem) {
        bulk_store(tiles.data(), smem, 96);
        bulk_store(tiles.data() + 24, smem + 128, 256);
      });
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 8; ++c)
      EXPECT_EQ(tiles[static_cast<std::size_t>(8 * r + c)],
                r < 2 && c >= 2 ? static_cast<float>(20 * (4 + r) + c - 2) : 0.0f);
  for (int i = 0; i < 16; ++i)
    for (int c = 0; c < 4; ++c) {
      const int a = 1 + i % 2, b = i / 2 % 2, d = 2 + i / 4 % 2, e = 1 + i / 8;
      const float expected =
          d < 3 ? static_cast<float>(1000 + c + 4 * (a + 3 * (b + 3 * (d + 3 * e)))) : 0.0f;
      EXPECT_EQ(tiles[static_cast<std::size_t>(24 + 4 * i + c)], expected) << i << ", " << c;
    }
}

TEST(EmulatedCopies, TensorMapsAreHeldToWhatTheDriverTakes) {
  alignas(16) std::array<std::uint16_t, 64> data{};
  const auto message = [&](std::size_t offset, std::uint64_t stride, std::uint32_t box) {
    try {
      tensor_map(data.data() + offset, 2, std::array<std::uint64_t, 2>{64, 2}, std::array{stride},
                 std::array<std::uint32_t, 2>{box, 1});
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(message(0, 128, 64), "taken");
  EXPECT_EQ(message(0, 136, 64), "tensor_map: expected strides in multiples of 16 bytes below 2^40, got 136");
  EXPECT_EQ(message(0, 128, 32), "tensor_map: expected rows of 128 bytes with the swizzle, got 64");
  EXPECT_EQ(message(0, 128, 300), "tensor_map: expected sides of the box from 1 to 256, got 300");
  EXPECT_EQ(message(1, 128, 64).substr(0, 49), "tensor_map: expected data at a multiple of 16 byt");
}

}  // namespace
}  // namespace fla::flash_kda
