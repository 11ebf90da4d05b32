#include "fla/core/cuda_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/core/tensor.h"
#include "tests/core/error_text.h"

namespace {

using fla::Device;
using fla::DeviceType;
using fla::DType;
using fla::InvalidArgument;
using fla::Tensor;
using fla_test::error_text;

constexpr Device gpu(int index) { return {DeviceType::cuda, static_cast<std::int16_t>(index)}; }

TEST(CudaDevices, AreThereOrThereIsAReason) {
  EXPECT_EQ(fla::cuda_devices().empty(), !fla::why_no_cuda_device().empty()) << fla::why_no_cuda_device();
}

TEST(CudaDevices, AreFoundByTheirIndexAlone) {
  const std::span<const fla::CudaDevice> devices = fla::cuda_devices();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(fla::find_cuda_device(gpu(static_cast<int>(i))), &devices[i]);
  }
  EXPECT_EQ(fla::find_cuda_device(gpu(static_cast<int>(devices.size()))), nullptr);
  EXPECT_EQ(fla::find_cuda_device(gpu(-1)), nullptr);
  EXPECT_EQ(fla::find_cuda_device(Device{}), nullptr);
}

TEST(CudaDevices, ArchitectureIsTheComputeCapability) {
  EXPECT_EQ((fla::CudaDevice{.name = "", .major = 9, .minor = 0}.architecture()), 90);
  EXPECT_EQ((fla::CudaDevice{.name = "", .major = 12, .minor = 1}.architecture()), 121);
}

TEST(CudaDevices, AbsentDriverIsAReason) {
  if (!fla::cuda_devices().empty())
    GTEST_SKIP() << "there is a GPU; CTest hides it with CUDA_VISIBLE_DEVICES";
  EXPECT_THAT(std::string(fla::why_no_cuda_device()),
              testing::AnyOf("this build has no CUDA kernels", "no CUDA driver was found",
                             "the CUDA driver knows no device"));
  for (const int index : {0, 3}) {
    const std::string refusal = "device: expected cpu, got cuda:" + std::to_string(index) + ": " +
                                std::string(fla::why_no_cuda_device());
    EXPECT_EQ(error_text<InvalidArgument>([index] { Tensor::empty({2}, DType::f32, gpu(index)); }), refusal);
    EXPECT_EQ(error_text<InvalidArgument>([index] { Tensor::zeros({2}, DType::f32, gpu(index)); }), refusal);
    EXPECT_EQ(error_text<InvalidArgument>([index] { fla::allocate_on(gpu(index), 16, {}); }), refusal);
    EXPECT_EQ(error_text<InvalidArgument>([index] { fla::synchronize(gpu(index)); }), refusal);
    EXPECT_EQ(
        error_text<InvalidArgument>([index] { fla::copy_to(Tensor::zeros({2}, DType::f32), gpu(index)); }),
        refusal);
  }
}

TEST(CudaDevices, DriverHasAVersionExactlyWhenItIsThere) {
  const bool no_driver = fla::why_no_cuda_device() == "this build has no CUDA kernels" ||
                         fla::why_no_cuda_device() == "no CUDA driver was found";
  EXPECT_EQ(fla::cuda_driver_version().empty(), no_driver);
}

}  // namespace
