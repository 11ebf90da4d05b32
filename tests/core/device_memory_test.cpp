#include "fla/core/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"

/// What device memory promises on the CPU; tests/gpu/device_memory_test.cpp has the rest.
namespace {

using fla::DType;
using fla::InvalidArgument;
using fla::Tensor;
using fla::TensorView;
using fla_test::error_text;
using testing::ElementsAre;

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::span<const float> values_of(const Tensor& tensor) {
  return {tensor.as<float>(), static_cast<std::size_t>(tensor.numel())};
}

TEST(DeviceMemory, IsAligned) {
  for (const std::size_t bytes : {0, 1, 100, 4096}) {
    const std::shared_ptr<void> memory = fla::allocate_on({}, bytes, {});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0u);
    EXPECT_NE(memory, nullptr);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor::empty({3}, DType::bf16).data()) % 256, 0u);
}

TEST(DeviceMemory, CopyTakesTheElements) {
  const std::vector<float> from = counting(6);
  const Tensor to = Tensor::zeros({2, 3}, DType::f32);
  fla::copy({from.data(), DType::f32, {2, 3}}, to);
  EXPECT_THAT(values_of(to), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(DeviceMemory, CopyOfNothingIsNoError) {
  fla::copy({nullptr, DType::f32, {0, 3}}, {nullptr, DType::f32, {0, 3}});
}

TEST(DeviceMemory, CopyRefusesOtherShapesDtypesAndLayouts) {
  const Tensor tensor = Tensor::zeros({2, 3}, DType::f32);
  const auto refusal = [](const TensorView& from, const TensorView& to) {
    return error_text<InvalidArgument>([&] { fla::copy(from, to); });
  };
  EXPECT_EQ(refusal(tensor, Tensor::zeros({3, 2}, DType::f32)),
            "to: expected the dtype and shape of f32[2, 3] on cpu, got f32[3, 2] on cpu");
  EXPECT_EQ(refusal(tensor, Tensor::zeros({2, 3}, DType::i32)),
            "to: expected the dtype and shape of f32[2, 3] on cpu, got i32[2, 3] on cpu");
  EXPECT_EQ(refusal(tensor, {}), "to: expected the dtype and shape of f32[2, 3] on cpu, got no tensor");
  EXPECT_EQ(refusal({}, tensor), "from: expected a tensor, got none");
  const TensorView columns = tensor.view().slice(1, 0, 2);
  EXPECT_EQ(refusal(columns, Tensor::zeros({2, 2}, DType::f32)),
            "from: expected a contiguous tensor, got f32[2, 2] on cpu with strides [3, 1]");
  EXPECT_EQ(refusal(Tensor::zeros({2, 2}, DType::f32), columns),
            "to: expected a contiguous tensor, got f32[2, 2] on cpu with strides [3, 1]");
}

TEST(DeviceMemory, CopyToPacksAnyLayoutOfTheCpu) {
  const std::vector<float> memory = counting(12);
  const std::array<std::int64_t, 2> shape{2, 3}, strides{-1, 4};
  const Tensor packed = fla::copy_to(TensorView(memory.data() + 1, DType::f32, shape, strides), {});
  EXPECT_TRUE(packed.view().is_contiguous());
  EXPECT_THAT(values_of(packed), ElementsAre(1, 5, 9, 0, 4, 8));
}

TEST(DeviceMemory, CopyToOnTheSameDeviceSharesNothing) {
  const Tensor tensor = Tensor::zeros({4}, DType::f32);
  const Tensor copied = fla::copy_to(tensor, {});
  tensor.as<float>()[0] = 7;
  EXPECT_THAT(values_of(copied), ElementsAre(0, 0, 0, 0));
}

TEST(DeviceMemory, CopyToRefusesNoTensor) {
  EXPECT_EQ(error_text<InvalidArgument>([] { fla::copy_to({}, {}); }), "tensor: expected a tensor, got none");
}

TEST(DeviceMemory, AllocatorIsNeverAskedForTheCpu) {
  struct Calls {
    int count = 0;
  } calls;
  fla::set_device_allocator({.allocate = [](void* context, std::size_t, fla::Device, fla::Stream) -> void* {
                               ++static_cast<Calls*>(context)->count;
                               return nullptr;
                             },
                             .release = [](void* context, void*, std::size_t, fla::Device,
                                           fla::Stream) { ++static_cast<Calls*>(context)->count; },
                             .context = &calls});
  Tensor::zeros({4}, DType::f32);
  fla::allocate_on({}, 16, {});
  fla::set_device_allocator({});
  EXPECT_EQ(calls.count, 0);
}

TEST(DeviceMemory, HalfAnAllocatorIsRefused) {
  EXPECT_EQ(error_text<InvalidArgument>([] {
              fla::set_device_allocator({.allocate = [](void*, std::size_t, fla::Device,
                                                        fla::Stream) -> void* { return nullptr; }});
            }),
            "allocator: expected both allocate and release or neither, got one of them");
}

TEST(DeviceMemory, SynchronizingTheCpuIsNothing) { fla::synchronize({}); }

/// What is left of 2 x 3 x 4 numbers when a part of them is cleared.
std::vector<float> after_clearing(const std::function<TensorView(const TensorView&)>& part) {
  std::vector<float> values(24, 1);
  fla::clear(part({values.data(), DType::f32, {2, 3, 4}}));
  return values;
}

TEST(Clear, ReachesEveryElementAndNoOther) {
  const auto expect = [](const std::function<TensorView(const TensorView&)>& part) {
    const std::vector<float> left = after_clearing(part);
    std::vector<float> expected(24, 1);
    const TensorView view = part({expected.data(), DType::f32, {2, 3, 4}});
    std::array<std::int64_t, 3> at{};
    for (at[0] = 0; at[0] < view.size(0); ++at[0]) {
      for (at[1] = 0; at[1] < view.size(1); ++at[1]) {
        for (at[2] = 0; at[2] < view.size(2); ++at[2])
          view.as<float>()[at[0] * view.stride(0) + at[1] * view.stride(1) + at[2] * view.stride(2)] = 0;
      }
    }
    EXPECT_EQ(left, expected) << view.describe();
  };
  expect([](const TensorView& all) { return all; });
  expect([](const TensorView& all) { return all.slice(0, 1, 1); });
  expect([](const TensorView& all) { return all.slice(1, 1, 2); });
  expect([](const TensorView& all) { return all.slice(2, 3, 1); });
  expect([](const TensorView& all) { return all.slice(1, 1, 2).slice(2, 1, 2); });
  expect([](const TensorView& all) { return all.slice(1, 3, 0); });
  expect([](const TensorView& all) {  // transposed, every second channel, from the last token to the first
    return TensorView(all.as<float>() + 8, DType::f32, {2, 2, 3}, {2, 12, -4});
  });
}

}  // namespace
