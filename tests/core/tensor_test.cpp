#include "fla/core/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"

namespace {

using fla::Device;
using fla::DeviceType;
using fla::DType;
using fla::InvalidArgument;
using fla::Tensor;
using fla::TensorView;
using fla_test::error_text;
using testing::ElementsAre;

static_assert(std::is_trivially_copyable_v<TensorView>);

// The memory of a temporary tensor is gone before a view of it could be used.
static_assert(std::is_convertible_v<Tensor&, TensorView> && std::is_convertible_v<const Tensor&, TensorView>);
static_assert(!std::is_convertible_v<Tensor, TensorView> && !std::is_convertible_v<const Tensor, TensorView>);
static_assert(!std::is_constructible_v<TensorView, Tensor>);
static_assert(std::is_assignable_v<TensorView&, Tensor&> && !std::is_assignable_v<TensorView&, Tensor>);
template <class Type>
concept HasView = requires(Type&& tensor) {
  std::forward<Type>(tensor).view();
};
static_assert(HasView<const Tensor&> && !HasView<Tensor>);
// A parameter lives no longer than the statement.
static_assert(std::is_invocable_v<void (*)(const TensorView&), Tensor>);

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST(TensorView, DefaultConstructedStandsForAnAbsentArgument) {
  const TensorView view;
  EXPECT_FALSE(view.defined());
  EXPECT_EQ(view.numel(), 0);
  EXPECT_TRUE(view.shape().empty());
  EXPECT_TRUE(view.strides().empty());
  EXPECT_EQ(view.describe(), "no tensor");
}

TEST(TensorView, IsRowMajorWithoutStrides) {
  const TensorView view(nullptr, DType::f32, {2, 3, 4});
  EXPECT_THAT(view.shape(), ElementsAre(2, 3, 4));
  EXPECT_THAT(view.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(view.numel(), 24);
  EXPECT_TRUE(view.is_contiguous());
}

TEST(TensorView, TakesStridesAsABraceList) {
  const TensorView view(nullptr, DType::bf16, {2, 3, 4}, {100, -4, 0});
  EXPECT_THAT(view.shape(), ElementsAre(2, 3, 4));
  EXPECT_THAT(view.strides(), ElementsAre(100, -4, 0));
  EXPECT_EQ(view.device(), Device::cpu());
  EXPECT_EQ(TensorView(nullptr, DType::f32, {2, 3}, {3, 1}, Device::cuda(1)).device(), Device::cuda(1));
  EXPECT_EQ(
      error_text<InvalidArgument>([] {
        TensorView(nullptr, DType::f32, {2, 3}, {1});
      }),
      error_text<InvalidArgument>([] {
        TensorView(nullptr, DType::f32, std::array<std::int64_t, 2>{2, 3}, std::array<std::int64_t, 1>{1});
      }));
}

TEST(Device, HasShortNames) {
  EXPECT_EQ(Device::cuda(), (Device{DeviceType::cuda, 0}));
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
  EXPECT_EQ(Device::cpu(), Device{});
  EXPECT_EQ(TensorView(nullptr, DType::f32, {2, 3}, Device::cuda(0)).device(), Device::cuda(0));
}

TEST(TensorView, KeepsTheCallersStrides) {
  const std::array<std::int64_t, 3> shape{2, 3, 4}, strides{100, -4, 0};
  const TensorView view(nullptr, DType::bf16, shape, strides);
  EXPECT_THAT(view.strides(), ElementsAre(100, -4, 0));
  EXPECT_FALSE(view.is_contiguous());
}

TEST(TensorView, ScalarHasOneElement) {
  const TensorView view(nullptr, DType::f32, {});
  EXPECT_TRUE(view.defined());
  EXPECT_EQ(view.rank(), 0);
  EXPECT_EQ(view.numel(), 1);
  EXPECT_EQ(view.extent().end, 4);
}

TEST(TensorView, EmptyTensorIsDefinedAndOccupiesNothing) {
  const TensorView view(nullptr, DType::f32, {2, 0, 4});
  EXPECT_TRUE(view.defined());
  EXPECT_EQ(view.numel(), 0);
  EXPECT_EQ(view.extent().begin, 0);
  EXPECT_EQ(view.extent().end, 0);
}

TEST(TensorView, StridesOfSizeOneAxesDoNotMatterForContiguity) {
  const std::array<std::int64_t, 3> shape{1, 3, 4}, strides{7, 4, 1};
  EXPECT_TRUE(TensorView(nullptr, DType::f32, shape, strides).is_contiguous());
}

TEST(TensorView, ExtentCoversTheFirstToTheLastElement) {
  const std::array<std::int64_t, 2> shape{3, 4}, strides{10, 2};
  const TensorView::Extent extent = TensorView(nullptr, DType::bf16, shape, strides).extent();
  EXPECT_EQ(extent.begin, 0);
  EXPECT_EQ(extent.end, 2 * (2 * 10 + 3 * 2 + 1));
}

TEST(TensorView, ExtentReachesBelowDataWithNegativeStrides) {
  const std::array<std::int64_t, 2> shape{3, 4}, strides{-10, 1};
  const TensorView::Extent extent = TensorView(nullptr, DType::f32, shape, strides).extent();
  EXPECT_EQ(extent.begin, 4 * -20);
  EXPECT_EQ(extent.end, 4 * 4);
}

TEST(TensorView, SliceSharesTheMemoryAndTheStrides) {
  std::array<float, 24> memory{};
  const TensorView whole(memory.data(), DType::f32, {2, 3, 4});
  const TensorView part = whole.slice(1, 1, 2);
  EXPECT_EQ(part.data(), memory.data() + 4);
  EXPECT_THAT(part.shape(), ElementsAre(2, 2, 4));
  EXPECT_THAT(part.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(whole.slice(2, 4, 0).numel(), 0);
}

TEST(TensorView, SliceOutsideIsRefused) {
  const TensorView view(nullptr, DType::f32, {2, 3});
  EXPECT_EQ(error_text<InvalidArgument>([&] { view.slice(1, 2, 2); }),
            "slice: axis 1, begin 2, length 2 is outside [2, 3]");
  EXPECT_THROW(view.slice(2, 0, 1), InvalidArgument);
  EXPECT_THROW(view.slice(-1, 0, 1), InvalidArgument);
  EXPECT_THROW(view.slice(0, -1, 1), InvalidArgument);
  EXPECT_THROW(view.slice(0, 0, -1), InvalidArgument);
  EXPECT_THROW(view.slice(0, std::numeric_limits<std::int64_t>::max(), 1), InvalidArgument);
}

TEST(TensorView, NegativeSizeIsRefused) {
  EXPECT_EQ(error_text<InvalidArgument>([] {
              TensorView(nullptr, DType::f32, {2, -1});
            }),
            "shape: expected sizes of 0 and above, got [2, -1]");
}

TEST(TensorView, MoreThanFiveDimensionsAreRefused) {
  EXPECT_EQ(error_text<InvalidArgument>([] {
              TensorView(nullptr, DType::f32, {1, 1, 1, 1, 1, 1});
            }),
            "shape: expected at most 5 dimensions, got [1, 1, 1, 1, 1, 1]");
}

TEST(TensorView, AsManyStridesAsSizesAreExpected) {
  const std::array<std::int64_t, 2> shape{2, 3};
  const std::array<std::int64_t, 1> strides{1};
  EXPECT_EQ(error_text<InvalidArgument>([&] { TensorView(nullptr, DType::f32, shape, strides); }),
            "strides: expected as many as sizes [2, 3], got [1]");
}

TEST(TensorView, SizesThatOverflowAreRefused) {
  EXPECT_EQ(error_text<InvalidArgument>([] {
              TensorView(nullptr, DType::f32, {kHuge, kHuge});
            }),
            "shape: [1099511627776, 1099511627776] has more bytes than memory can have");
  EXPECT_THROW(TensorView(nullptr, DType::i64, {std::int64_t{1} << 60}), InvalidArgument);
  EXPECT_THROW(TensorView(nullptr, DType::f32, {0, kHuge, kHuge}), InvalidArgument);
}

TEST(TensorView, StridesThatOverflowAreRefused) {
  const std::array<std::int64_t, 2> shape{2, 3};
  for (const std::int64_t stride : {std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 61}) {
    const std::array<std::int64_t, 2> strides{stride, 1};
    EXPECT_THROW(TensorView(nullptr, DType::f32, shape, strides), InvalidArgument) << stride;
  }
}

TEST(TensorView, DescribesTypeShapeAndDevice) {
  EXPECT_EQ(TensorView(nullptr, DType::f32, {1, 8, 2, 64}).describe(), "f32[1, 8, 2, 64] on cpu");
  EXPECT_EQ(TensorView(nullptr, DType::bf16, {3}, Device{DeviceType::cuda, 1}).describe(),
            "bf16[3] on cuda:1");
  EXPECT_EQ(fla::shape_text({}), "[]");
}

TEST(Tensor, DefaultConstructedIsEmpty) { EXPECT_FALSE(Tensor().defined()); }

TEST(Tensor, MemoryIsAlignedForVectorLoads) {
  for (const std::int64_t size : {0, 1, 3, 1000}) {
    const Tensor tensor = Tensor::empty({size}, DType::bf16);
    EXPECT_NE(tensor.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  }
}

TEST(Tensor, ZerosAreZero) {
  const Tensor tensor = Tensor::zeros({3, 5}, DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) EXPECT_EQ(tensor.as<float>()[i], 0.0f);
}

TEST(Tensor, CopiesShareMemoryAndTheLastOneFreesIt) {
  auto owner = std::make_shared<std::vector<float>>(6);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor first = Tensor::over(TensorView(owner->data(), DType::f32, {2, 3}), owner);
  const float* data = owner->data();
  owner.reset();
  {
    const Tensor second = first;
    first = Tensor();
    EXPECT_EQ(second.data(), data);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, ImpossibleShapesAreRefused) {
  EXPECT_THROW(Tensor::empty({kHuge, kHuge}, DType::f32), InvalidArgument);
  EXPECT_THROW(Tensor::empty({-1}, DType::f32), InvalidArgument);
}

TEST(Device, NamesRoundTrip) {
  EXPECT_EQ(fla::device_from_name("cpu"), Device{});
  EXPECT_EQ(fla::device_from_name("cuda"), (Device{DeviceType::cuda, 0}));
  EXPECT_EQ(fla::device_from_name("cuda:7"), (Device{DeviceType::cuda, 7}));
  EXPECT_EQ(fla::to_string(Device{DeviceType::cuda, 7}), "cuda:7");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999"}) {
    EXPECT_EQ(fla::device_from_name(bad), std::nullopt) << bad;
  }
}

TEST(DTypeNames, RoundTrip) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64}) {
    EXPECT_EQ(fla::dtype_from_name(fla::name_of(type)), type);
  }
  EXPECT_EQ(fla::dtype_from_name("f64"), std::nullopt);
}

}  // namespace
