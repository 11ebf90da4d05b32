#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/ops/short_conv/conv_call.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::ShortConvArgs;
using fla::Tensor;
using fla::TensorView;
using fla_test::ConvCall;
using fla_test::index_tensor;
using fla_test::random_tensor;

/// What short_conv says after its name, which must be the same both ways; nothing may have been written.
std::string answer(const ShortConvArgs& args) {
  std::string texts[2];
  for (int i = 0; i < 2; ++i) {
    texts[i] = fla_test::error_text<fla::InvalidArgument>(
        [&] { (void)(i == 0 ? fla::short_conv(args) : fla::original::short_conv(args)); });
  }
  EXPECT_EQ(texts[0], texts[1]);
  const std::string name = "short_conv: ";
  return texts[0].starts_with(name) ? texts[0].substr(name.size()) : "without its name: " + texts[0];
}

/// [2, 3, 5], W = 4, with all that a call may have but packed sequences.
struct ShortConvRefuses : testing::Test {
  ConvCall call{{.B = 2, .T = 3, .D = 5}};
  ShortConvArgs args = call.args;
};

TEST_F(ShortConvRefuses, MissingTensors) {
  EXPECT_EQ(answer({}), "x: expected a tensor of shape [B, T, D], got none");
  EXPECT_EQ(answer({.x = call.x}), "weight: expected a tensor of shape [D=5, W], got none");
}

TEST_F(ShortConvRefuses, OtherShapes) {
  const Tensor four = random_tensor({2, 3, 5, 1}, DType::f32, 1),
               other = random_tensor({6, 4}, DType::f32, 1), wide = random_tensor({2, 5, 4}, DType::f32, 1),
               short_bias = random_tensor({4}, DType::f32, 1), out = random_tensor({2, 3, 6}, DType::f32, 1);
  ShortConvArgs wrong = args;
  wrong.x = four;
  EXPECT_EQ(answer(wrong), "x: expected shape [B, T, D], got [2, 3, 5, 1]");
  wrong = args, wrong.weight = other;
  EXPECT_EQ(answer(wrong), "weight: expected shape [D=5, W], got [6, 4]");
  wrong = args, wrong.bias = short_bias;
  EXPECT_EQ(answer(wrong), "bias: expected shape [D=5], got [4]");
  wrong = args, wrong.initial_state = wide;
  EXPECT_EQ(answer(wrong), "initial_state: expected shape [N=2, D=5, W-1=3], got [2, 5, 4]");
  wrong = args, wrong.final_state = wide;
  EXPECT_EQ(answer(wrong), "final_state: expected shape [N=2, D=5, W-1=3], got [2, 5, 4]");
  wrong = args, wrong.out = out;
  EXPECT_EQ(answer(wrong), "out: expected shape [B=2, T=3, D=5], got [2, 3, 6]");
}

TEST_F(ShortConvRefuses, OtherWidthsAndNoChannels) {
  for (const std::int64_t W : {0, 1, 5}) {
    const Tensor weight = random_tensor({5, W}, DType::f32, 1);
    EXPECT_EQ(answer({.x = call.x, .weight = weight}),
              "weight: expected W from 2 to 4, got " + std::to_string(W));
  }
  const Tensor x = random_tensor({2, 3, 0}, DType::f32, 1), weight = random_tensor({0, 4}, DType::f32, 1);
  EXPECT_EQ(answer({.x = x, .weight = weight}), "x: expected at least one channel, got D=0");
}

TEST_F(ShortConvRefuses, OtherDTypes) {
  const Tensor whole = Tensor::zeros({2, 3, 5}, DType::i32), half = Tensor::zeros({2, 3, 5}, DType::bf16),
               starts = Tensor::zeros({2}, DType::f32);
  ShortConvArgs wrong = args;
  wrong.x = whole;
  EXPECT_EQ(answer(wrong), "x: expected dtype bf16 or f16 or f32, got i32");
  wrong = args, wrong.out = half;
  EXPECT_EQ(answer(wrong), "out: expected dtype f32 like x, got bf16");
  wrong = args, wrong.cu_seqlens = starts;
  EXPECT_EQ(answer(wrong), "cu_seqlens: expected dtype i32 or i64, got f32");
}

TEST_F(ShortConvRefuses, MemoryThatIsNotThereOrNotItsOwn) {
  ShortConvArgs wrong = args;
  wrong.x = TensorView(nullptr, DType::f32, {2, 3, 5});
  EXPECT_EQ(answer(wrong), "x: expected f32[2, 3, 5] on cpu, got a null pointer");
  wrong = args, wrong.out = call.x;
  EXPECT_EQ(answer(wrong), "out: expected memory of its own, got some that overlaps x");
  wrong = args, wrong.out = TensorView(call.out.data(), DType::f32, {2, 3, 5}, {15, 0, 1});
  EXPECT_EQ(answer(wrong), "out: expected every element in a place of its own, got stride 0 at axis 1");
  const Tensor pools = random_tensor({3, 5, 3}, DType::f32, 1);
  wrong = args, wrong.initial_state = pools.view().slice(0, 0, 2),
  wrong.final_state = pools.view().slice(0, 1, 2);
  EXPECT_EQ(answer(wrong), "final_state: expected memory of its own, got some that overlaps initial_state");
}

TEST_F(ShortConvRefuses, SequencesThatAreNotThere) {
  const auto packed = [&](const std::vector<std::int64_t>& starts) {
    const ConvCall one({.T = 6, .D = 5, .initial_state = false});
    const Tensor index = index_tensor(starts);
    ShortConvArgs wrong = one.args;
    wrong.cu_seqlens = index;
    return answer(wrong);
  };
  EXPECT_EQ(packed({1, 6}), "cu_seqlens: expected a first entry of 0, got cu_seqlens[0]=1");
  EXPECT_EQ(packed({0, 4, 3}),
            "cu_seqlens: expected entries that never fall, got cu_seqlens[1]=4 and cu_seqlens[2]=3");
  EXPECT_EQ(packed({0, 7}), "cu_seqlens: expected a last entry of at most T=6, got cu_seqlens[1]=7");
  EXPECT_EQ(packed({0}), "cu_seqlens: expected at least two entries, got 1");
  const Tensor starts = index_tensor({0, 3});
  ShortConvArgs wrong = args;
  wrong.cu_seqlens = starts, wrong.initial_state = {};
  EXPECT_EQ(answer(wrong), "cu_seqlens: expected B=1 with packed sequences, got B=2");
}

TEST_F(ShortConvRefuses, SlotsThatAreNotThereOrAnothers) {
  const auto pooled = [&](const std::vector<std::int64_t>& read,
                          const std::vector<std::int64_t>& write = {}) {
    const ConvCall one({.B = 2, .T = 3, .D = 5, .slots = read, .write_slots = write, .pool = 3});
    const Tensor before = random_tensor({3, 5, 3}, DType::f32, 4);
    std::string said = answer(one.args);
    EXPECT_EQ(fla::conformance::bytes_of(one.initial_state), fla::conformance::bytes_of(before));
    EXPECT_EQ(fla::cases::element(one.out, 0), 7);
    return said;
  };
  EXPECT_EQ(pooled({0, 3}), "state_indices: expected entries below P=3, got state_indices[1]=3");
  EXPECT_EQ(pooled({2, 2}),
            "state_indices: expected slots that are written once, got "
            "state_indices[0]=2 and state_indices[1]=2");
  EXPECT_EQ(pooled({0, 1}, {2, 2}),
            "state_write_indices: expected slots that are written once, got "
            "state_write_indices[0]=2 and state_write_indices[1]=2");
  EXPECT_EQ(pooled({0, 1}, {1, 2}),
            "state_write_indices: expected slots that no other sequence reads, got "
            "state_write_indices[0]=1 and state_indices[1]=1");
  EXPECT_EQ(pooled({0, 1, 2}), "state_indices: expected shape [N=2], got [3]");
  const Tensor slots = index_tensor({0, 1});
  ShortConvArgs wrong = args;
  wrong.state_indices = slots;
  EXPECT_EQ(answer(wrong),
            "final_state: expected the pool to write to with state_indices and output_final_state, got none");
  wrong = args, wrong.state_write_indices = slots;
  EXPECT_EQ(answer(wrong),
            "state_indices: expected a tensor of shape [N=2] with state_write_indices, got none");
}

TEST_F(ShortConvRefuses, DevicesThatAreNotThere) {
  const fla::Device device{fla::DeviceType::cuda, 999};
  ShortConvArgs wrong{.x = TensorView(call.x.data(), DType::f32, {2, 3, 5}, device),
                      .weight = TensorView(call.weight.data(), DType::f32, {5, 4}, device)};
  const std::string said = answer(wrong);
  EXPECT_TRUE(said.starts_with("x: expected device c")) << said;
  EXPECT_NE(said.find("got cuda:999"), std::string::npos) << said;
  wrong.weight = call.weight;
  EXPECT_EQ(answer(wrong), "weight: expected device cuda:999, got cpu");
}

}  // namespace
