#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "fla/core/dlpack_abi.h"
#include "fla/core/errors.h"
#include "fla/core/tensor.h"
#include "tests/core/error_text.h"

#ifdef FLA_TEST_HAS_DLPACK
#include <dlpack/dlpack.h>

#include "fla/c_api.h"  // leaves DLPack's structs to it

static_assert(sizeof(DLManagedTensor) == sizeof(fla::dlpack::ManagedTensor));
static_assert(offsetof(DLManagedTensor, dl_tensor) == offsetof(fla::dlpack::ManagedTensor, tensor));
static_assert(offsetof(DLManagedTensor, manager_ctx) == offsetof(fla::dlpack::ManagedTensor, manager));
static_assert(offsetof(DLManagedTensor, deleter) == offsetof(fla::dlpack::ManagedTensor, deleter));
static_assert(sizeof(DLTensor) == sizeof(fla::dlpack::Tensor));
static_assert(offsetof(DLTensor, data) == offsetof(fla::dlpack::Tensor, data));
static_assert(offsetof(DLTensor, ndim) == offsetof(fla::dlpack::Tensor, ndim));
static_assert(offsetof(DLTensor, dtype) == offsetof(fla::dlpack::Tensor, dtype));
static_assert(offsetof(DLTensor, shape) == offsetof(fla::dlpack::Tensor, shape));
static_assert(offsetof(DLTensor, strides) == offsetof(fla::dlpack::Tensor, strides));
static_assert(offsetof(DLTensor, byte_offset) == offsetof(fla::dlpack::Tensor, byte_offset));
static_assert(sizeof(DLDataType) == sizeof(fla::dlpack::DataType));
static_assert(sizeof(DLDevice) == sizeof(fla::dlpack::Device));
static_assert(int{kDLCPU} == int{fla::dlpack::kCpu} && int{kDLInt} == int{fla::dlpack::kInt} &&
              int{kDLFloat} == int{fla::dlpack::kFloat} && int{kDLBfloat} == int{fla::dlpack::kBfloat});
#endif

namespace {

using fla::DType;
using fla::InvalidArgument;
using fla::Tensor;
using fla_test::error_text;
using testing::ElementsAre;

/// A DLPack tensor as another library would hand it over; counts how often it is given back.
struct Foreign {
  std::vector<float> memory = std::vector<float>(32);
  std::vector<std::int64_t> shape{2, 3, 4}, strides{12, 4, 1};
  int deleted = 0;
  fla::dlpack::ManagedTensor managed{};

  Foreign() {
    managed.tensor = {memory.data(), {fla::dlpack::kCpu, 0}, 3, {fla::dlpack::kFloat, 32, 1},
                      shape.data(),  strides.data(),         0};
    managed.manager = this;
    managed.deleter = [](fla::dlpack::ManagedTensor* self) {
      ++static_cast<Foreign*>(self->manager)->deleted;
    };
  }
  DLManagedTensor* get() { return reinterpret_cast<DLManagedTensor*>(&managed); }

  std::string refusal() {
    return error_text<InvalidArgument>([this] { Tensor::from_dlpack(get()); });
  }
};

TEST(FromDlpack, SharesTheMemory) {
  Foreign foreign;
  const Tensor tensor = Tensor::from_dlpack(foreign.get());
  EXPECT_EQ(tensor.data(), foreign.memory.data());
  EXPECT_EQ(tensor.dtype(), DType::f32);
  EXPECT_TRUE(tensor.device().is_cpu());
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 3, 4));
  EXPECT_THAT(tensor.view().strides(), ElementsAre(12, 4, 1));
}

TEST(FromDlpack, RunsTheDeleterOnceWhenTheLastCopyGoes) {
  Foreign foreign;
  {
    Tensor first = Tensor::from_dlpack(foreign.get());
    const Tensor second = first;
    first = Tensor();
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(FromDlpack, TakesATensorWithoutADeleter) {
  Foreign foreign;
  foreign.managed.deleter = nullptr;
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).data(), foreign.memory.data());
}

TEST(FromDlpack, HonoursTheByteOffset) {
  Foreign foreign;
  foreign.managed.tensor.byte_offset = 4 * sizeof(float);
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).data(), foreign.memory.data() + 4);
}

TEST(FromDlpack, NullStridesMeanRowMajor) {
  Foreign foreign;
  foreign.managed.tensor.strides = nullptr;
  const Tensor tensor = Tensor::from_dlpack(foreign.get());
  EXPECT_THAT(tensor.view().strides(), ElementsAre(12, 4, 1));
}

TEST(FromDlpack, KeepsForeignStrides) {
  Foreign foreign;
  foreign.strides = {1, 2, -8};
  const Tensor tensor = Tensor::from_dlpack(foreign.get());
  EXPECT_THAT(tensor.view().strides(), ElementsAre(1, 2, -8));
}

TEST(FromDlpack, KnowsEveryDtype) {
  using fla::dlpack::DataType;
  const std::array<std::pair<DataType, DType>, 5> types{{{{fla::dlpack::kBfloat, 16, 1}, DType::bf16},
                                                         {{fla::dlpack::kFloat, 16, 1}, DType::f16},
                                                         {{fla::dlpack::kFloat, 32, 1}, DType::f32},
                                                         {{fla::dlpack::kInt, 32, 1}, DType::i32},
                                                         {{fla::dlpack::kInt, 64, 1}, DType::i64}}};
  for (const auto& [foreign_type, dtype] : types) {
    Foreign foreign;
    foreign.managed.tensor.dtype = foreign_type;
    EXPECT_EQ(Tensor::from_dlpack(foreign.get()).dtype(), dtype);
  }
}

TEST(FromDlpack, RefusesANullPointer) {
  EXPECT_EQ(error_text<InvalidArgument>([] { Tensor::from_dlpack(nullptr); }),
            "dlpack: expected a tensor, got a null pointer");
}

TEST(FromDlpack, RefusesAnUnknownDtypeAndLeavesItToTheCaller) {
  Foreign foreign;
  foreign.managed.tensor.dtype = {fla::dlpack::kFloat, 64, 1};
  EXPECT_EQ(foreign.refusal(),
            "dlpack: expected bf16, f16, f32, i32 or i64, got type code 2 of 64 bits and 1 lanes");
  foreign.managed.tensor.dtype = {fla::dlpack::kFloat, 32, 4};
  EXPECT_EQ(foreign.refusal(),
            "dlpack: expected bf16, f16, f32, i32 or i64, got type code 2 of 32 bits and 4 lanes");
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesAnUnknownDeviceAndLeavesItToTheCaller) {
  Foreign foreign;
  foreign.managed.tensor.device.type = 7;
  EXPECT_EQ(foreign.refusal(), "dlpack: expected a CPU or CUDA tensor, got device type 7 and index 0");
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, TakesTheIndexOfACudaDevice) {
  Foreign foreign;
  foreign.managed.tensor.device = {fla::dlpack::kCuda, 3};
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).device(), (fla::Device{fla::DeviceType::cuda, 3}));
  foreign.managed.tensor.device = {fla::dlpack::kCudaManaged, 1};
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).device(), (fla::Device{fla::DeviceType::cuda, 1}));
  foreign.managed.tensor.device = {fla::dlpack::kCudaHost, 1};
  EXPECT_TRUE(Tensor::from_dlpack(foreign.get()).device().is_cpu());
}

TEST(FromDlpack, RefusesAnImpossibleIndexAndLeavesItToTheCaller) {
  Foreign foreign;
  for (const std::int32_t index : {-1, 65536}) {
    foreign.managed.tensor.device = {fla::dlpack::kCuda, index};
    EXPECT_EQ(foreign.refusal(),
              "dlpack: expected a CPU or CUDA tensor, got device type 2 and index " + std::to_string(index));
  }
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesABadRankAndLeavesItToTheCaller) {
  Foreign foreign;
  foreign.shape.assign(6, 1);
  foreign.strides.assign(6, 1);
  foreign.managed.tensor.shape = foreign.shape.data();
  foreign.managed.tensor.strides = foreign.strides.data();
  for (const int rank : {6, -1, 1 << 30, std::numeric_limits<int>::min()}) {
    foreign.managed.tensor.ndim = rank;
    EXPECT_EQ(foreign.refusal(), "dlpack: expected 0 to 5 dimensions, got " + std::to_string(rank));
  }
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesANegativeSizeAndLeavesItToTheCaller) {
  Foreign foreign;
  foreign.shape[1] = -3;
  EXPECT_EQ(foreign.refusal(), "dlpack: shape: expected sizes of 0 and above, got [2, -3, 4]");
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesAMissingShapeAndLeavesItToTheCaller) {
  Foreign foreign;
  foreign.managed.tensor.shape = nullptr;
  EXPECT_EQ(foreign.refusal(), "dlpack: expected a shape of 3 dimensions, got a null pointer");
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesSizesWhoseProductOverflowsAndLeavesThemToTheCaller) {
  Foreign foreign;
  foreign.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40, 4};
  const std::string too_large = "[1099511627776, 1099511627776, 4]";
  EXPECT_EQ(foreign.refusal(), "dlpack: shape: " + too_large + " has more bytes than memory can have");
  foreign.managed.tensor.strides = nullptr;
  EXPECT_EQ(foreign.refusal(), "dlpack: shape: " + too_large + " has more bytes than memory can have");
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, RefusesStridesThatReachBeyondMemoryAndLeavesThemToTheCaller) {
  Foreign foreign;
  foreign.strides[0] = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(foreign.refusal(), testing::HasSubstr("reach further than memory does"));
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(FromDlpack, NeedsNoShapeForASingleNumber) {
  Foreign foreign;
  foreign.managed.tensor.ndim = 0;
  foreign.managed.tensor.shape = foreign.managed.tensor.strides = nullptr;
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).numel(), 1);
}

TEST(FromDlpack, NoMemoryStaysNoMemoryWhateverTheOffset) {
  Foreign foreign;
  foreign.managed.tensor.data = nullptr;
  foreign.managed.tensor.byte_offset = 64;
  EXPECT_EQ(Tensor::from_dlpack(foreign.get()).data(), nullptr);
}

TEST(ToDlpack, ExportsTheSameMemory) {
  const Tensor tensor = Tensor::empty({2, 3}, DType::bf16);
  auto* managed = reinterpret_cast<fla::dlpack::ManagedTensor*>(tensor.to_dlpack());
  EXPECT_EQ(managed->tensor.data, tensor.data());
  EXPECT_EQ(managed->tensor.device.type, fla::dlpack::kCpu);
  ASSERT_EQ(managed->tensor.ndim, 2);
  EXPECT_THAT(std::span(managed->tensor.shape, 2), ElementsAre(2, 3));
  EXPECT_THAT(std::span(managed->tensor.strides, 2), ElementsAre(3, 1));
  EXPECT_EQ(managed->tensor.dtype.code, fla::dlpack::kBfloat);
  EXPECT_EQ(managed->tensor.dtype.bits, 16);
  EXPECT_EQ(managed->tensor.dtype.lanes, 1);
  EXPECT_EQ(managed->tensor.byte_offset, 0u);
  managed->deleter(managed);
}

TEST(ToDlpack, KeepsTheMemoryAliveUntilItsDeleterRuns) {
  Foreign foreign;
  Tensor tensor = Tensor::from_dlpack(foreign.get());
  auto* managed = reinterpret_cast<fla::dlpack::ManagedTensor*>(tensor.to_dlpack());
  tensor = Tensor();
  EXPECT_EQ(foreign.deleted, 0);
  managed->deleter(managed);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(ToDlpack, ComesBackAsTheSameTensor) {
  const Tensor tensor = Tensor::zeros({4, 2, 3}, DType::i64);
  const Tensor back = Tensor::from_dlpack(tensor.to_dlpack());
  EXPECT_EQ(back.data(), tensor.data());
  EXPECT_EQ(back.dtype(), tensor.dtype());
  EXPECT_THAT(back.shape(), ElementsAre(4, 2, 3));
}

}  // namespace
