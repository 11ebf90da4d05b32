#include "tools/cases/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/tools/temporary_folder.h"

namespace fla::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::read_bytes;
using testing::TemporaryFolder;

Tensor counting(std::initializer_list<std::int64_t> shape) {
  Tensor tensor = Tensor::empty(shape, DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.as<float>()[i] = static_cast<float>(i);
  return tensor;
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const Tensor f32 = counting({2, 3}), bf16 = Tensor::zeros({5}, DType::bf16),
               i64 = Tensor::zeros({1}, DType::i64);
  const Tensor empty = Tensor::empty({0, 7}, DType::f16),
               scalar = Tensor::zeros(std::initializer_list<std::int64_t>{}, DType::i32);
  const std::vector<NamedTensor> tensors{{"b", bf16}, {"a", f32}, {"i", i64}, {"e", empty}, {"s", scalar}};
  write_safetensors(folder / "x", tensors, {{"op", "kda"}});
  const Safetensors file = Safetensors::open(folder / "x");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("op", "kda")));
  ASSERT_EQ(file.entries().size(), 5u);
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = file.read(name);
    EXPECT_EQ(read.dtype(), tensor.dtype());
    EXPECT_THAT(read.shape(), ::testing::ElementsAreArray(tensor.shape().begin(), tensor.shape().end()));
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
    EXPECT_TRUE(bytes == 0 || std::memcmp(read.data(), tensor.data(), bytes) == 0) << name;
  }
}

TEST(Safetensors, WritesStridedTensorsInRowMajorOrder) {
  const TemporaryFolder folder;
  const Tensor whole = counting({2, 3});
  const std::array<std::int64_t, 2> shape{3, 2}, strides{1, 3};
  const std::vector<NamedTensor> tensors{
      {"t",
       Tensor::over(TensorView(whole.data(), DType::f32, shape, strides), std::make_shared<Tensor>(whole))}};
  write_safetensors(folder / "x", tensors);
  const Tensor read = Safetensors::open(folder / "x").read("t");
  EXPECT_THAT(std::vector<float>(read.as<float>(), read.as<float>() + 6), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Safetensors, WritesTheSameBytesForTheSameTensors) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors{{"a", counting({4})}}, again = tensors;
  write_safetensors(folder / "x", tensors);
  write_safetensors(folder / "y", again);
  EXPECT_EQ(read_bytes(folder / "x"), read_bytes(folder / "y"));
}

TEST(Safetensors, KeepsATensorAlignedWhateverTheHeadersLength) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", std::vector<NamedTensor>{{"a", counting({4})}}, {{"key", "odd"}});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Safetensors::open(folder / "x").read("a").data()) % 64, 0u);
}

TEST(Safetensors, OpensAFileWithDtypesThatOnlyOthersHave) {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"NEW_7","shape":[3],"data_offsets":[8,9]}})";
  const std::uint64_t length = header.size();
  const std::string bytes =
      std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(9, '\0');
  const Safetensors file = Safetensors::open(folder.write("x", bytes));
  EXPECT_EQ(file.entries().size(), 2u);
  EXPECT_THROW(file.read("a"), FileError);
  EXPECT_THROW(file.read("b"), FileError);
}

}  // namespace
}  // namespace fla::cases
