#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

#include "fla/core/arguments.h"

namespace {

using fla::DType;
using fla::may_overlap;
using fla::TensorView;

TEST(MayOverlap, TensorsThatAreApartDoNot) {
  std::array<float, 24> memory{};
  const TensorView first(memory.data(), DType::f32, {3, 4}), second(memory.data() + 12, DType::f32, {3, 4});
  EXPECT_FALSE(may_overlap(first, second));
  EXPECT_FALSE(may_overlap(second, first));
}

TEST(MayOverlap, OneSharedElementDoes) {
  std::array<float, 24> memory{};
  const TensorView first(memory.data(), DType::f32, {3, 4}), second(memory.data() + 11, DType::f32, {3, 4});
  EXPECT_TRUE(may_overlap(first, second));
  EXPECT_TRUE(may_overlap(second, first));
}

TEST(MayOverlap, SlicesOfAFusedTensorDoNot) {
  std::array<float, 5 * 12> memory{};
  const TensorView fused(memory.data(), DType::f32, {5, 12});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(may_overlap(fused.slice(1, 4 * i, 4), fused.slice(1, 4 * j, 4)), i == j) << i << " and " << j;
    }
  }
  EXPECT_TRUE(may_overlap(fused.slice(1, 0, 5), fused.slice(1, 4, 4)));
  EXPECT_TRUE(may_overlap(fused, fused.slice(1, 4, 4)));
}

TEST(MayOverlap, SlicesOfDifferentTokensOfAFusedTensorDoNot) {
  std::array<float, 2 * 5 * 12> memory{};
  const TensorView fused(memory.data(), DType::f32, {2, 5, 12});
  EXPECT_FALSE(may_overlap(fused.slice(2, 0, 4), fused.slice(2, 4, 8)));
  EXPECT_FALSE(may_overlap(fused.slice(0, 0, 1).slice(2, 0, 4), fused.slice(0, 1, 1)));
}

TEST(MayOverlap, AbsentAndEmptyTensorsShareNothing) {
  std::array<float, 4> memory{};
  const TensorView tensor(memory.data(), DType::f32, {4});
  EXPECT_FALSE(may_overlap(tensor, TensorView()));
  EXPECT_FALSE(may_overlap(tensor, TensorView(memory.data(), DType::f32, {0, 4})));
}

TEST(MayOverlap, OtherDevicesAreOtherMemory) {
  std::array<float, 4> memory{};
  EXPECT_FALSE(may_overlap(TensorView(memory.data(), DType::f32, {4}),
                           TensorView(memory.data(), DType::f32, {4}, {fla::DeviceType::cuda, 0})));
}

TEST(MayOverlap, ReversedTensorsAreSeen) {
  std::array<float, 8> memory{};
  constexpr std::array<std::int64_t, 1> shape{4}, backwards{-1};
  const TensorView reversed(memory.data() + 5, DType::f32, shape, backwards);  // elements 2 to 5
  EXPECT_TRUE(may_overlap(reversed, TensorView(memory.data() + 2, DType::f32, {1})));
  EXPECT_FALSE(may_overlap(reversed, TensorView(memory.data(), DType::f32, {2})));
  EXPECT_FALSE(may_overlap(reversed, TensorView(memory.data() + 6, DType::f32, {2})));
}

/// The bytes that a view's elements occupy, one by one.
std::set<std::intptr_t> bytes_of(const TensorView& view) {
  std::set<std::intptr_t> bytes;
  std::vector<std::int64_t> index(view.shape().size(), 0);
  for (std::int64_t i = 0; i < view.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      offset += rest % view.size(axis) * view.stride(axis);
      rest /= view.size(axis);
    }
    const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
    const auto start = reinterpret_cast<std::intptr_t>(view.data()) + offset * element;
    for (std::int64_t byte = 0; byte < element; ++byte) bytes.insert(start + byte);
  }
  return bytes;
}

TEST(MayOverlap, NeverMissesASharedByte) {
  std::mt19937 random(11);
  const auto below = [&random](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  std::array<std::byte, 4096> memory{};
  const auto any_view = [&] {
    const auto rank = static_cast<std::size_t>(1 + below(3));
    std::vector<std::int64_t> shape, strides;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      shape.push_back(1 + below(3));
      strides.push_back(below(17) - 6);
    }
    const DType dtype = below(2) ? DType::f32 : DType::bf16;
    return TensorView(memory.data() + 2048 + 2 * below(24), dtype, shape, strides);
  };
  int apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const TensorView a = any_view(), b = any_view();
    const std::set<std::intptr_t> of_a = bytes_of(a);
    bool shared = false;
    for (const std::intptr_t byte : bytes_of(b)) shared = shared || of_a.contains(byte);
    if (shared) {
      ASSERT_TRUE(may_overlap(a, b)) << "round " << round;
    }
    apart += may_overlap(a, b) ? 0 : 1;
  }
  EXPECT_GT(apart, 0);
}

}  // namespace
