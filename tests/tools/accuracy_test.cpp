#include "tools/cases/accuracy.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "fla/core/errors.h"

namespace fla::cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RelativeError, IsTheNormOfTheDifferenceOverTheNorm) {
  const std::array x{3.0f, 4.5f};
  EXPECT_DOUBLE_EQ(relative_error(TensorView(x.data(), DType::f32, {2}), std::array{3.0, 4.0}), 0.1);
}

TEST(RelativeError, IsInfiniteForNaNAndInf) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::array x{1.0f, bad};
    EXPECT_EQ(relative_error(TensorView(x.data(), DType::f32, {2}), std::array{1.0, 1.0}), kInfinity);
  }
}

TEST(RelativeError, IsTheNormItselfWhereTheReferenceIsZero) {
  const std::array x{0.0f, 0.25f};
  const TensorView view(x.data(), DType::f32, {2});
  EXPECT_DOUBLE_EQ(relative_error(view, std::array{0.0, 0.0}), 0.25);
  EXPECT_DOUBLE_EQ(relative_error(view.slice(0, 0, 1), std::array{0.0}), 0.0);
}

TEST(RelativeError, OfNothingIsZero) {
  EXPECT_EQ(relative_error(TensorView(nullptr, DType::f32, {0, 4}), std::span<const double>()), 0.0);
}

TEST(RelativeError, HonoursStrides) {
  const std::array x{1.0f, 9.0f, 2.0f, 9.0f};
  const std::array<std::int64_t, 1> shape{2}, strides{2};
  EXPECT_EQ(relative_error(TensorView(x.data(), DType::f32, shape, strides), std::array{1.0, 2.0}), 0.0);
}

TEST(RelativeError, RefusesAnotherShape) {
  const std::array x{1.0f, 2.0f};
  const TensorView row(x.data(), DType::f32, {1, 2}), column(x.data(), DType::f32, {2, 1});
  EXPECT_THROW(relative_error(row, column), InvalidArgument);
}

TEST(Tolerance, BelongsToTheDtype) {
  EXPECT_EQ(tolerance(DType::f32), 2e-5);
  EXPECT_EQ(tolerance(DType::bf16), 8e-3);
  EXPECT_EQ(tolerance(DType::f16), 2e-3);
}

}  // namespace
}  // namespace fla::cases
