#include "fla/ops/short_conv/short_conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/core/threads.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/short_conv/conv_call.h"
#include "tools/conformance/allocations.h"

namespace {

using fla::DType;
using fla::ShortConvArgs;
using fla::ShortConvResult;
using fla::Tensor;
using fla::TensorView;
using fla::conformance::bytes_of;
using fla::conformance::Layout;
using fla_test::conv_specs;
using fla_test::ConvCall;
using fla_test::ConvSpec;
using fla_test::expect_agrees;
using fla_test::LaidOutCall;

std::vector<double> values_of(const TensorView& tensor) {
  std::vector<double> values;
  fla::cases::for_each_offset(tensor,
                              [&](std::int64_t at) { values.push_back(fla::cases::element(tensor, at)); });
  return values;
}

TEST(ShortConv, IsTheSumOverTheTokensBefore) {
  float x[] = {1, 10, 2, 20, 3, 30}, weight[] = {100, 10, 1, 0, 0, 2}, state[] = {4, 5, 40, 50},
        bias[] = {0.5, 0};
  const ShortConvResult result = fla::short_conv({.x = TensorView(x, DType::f32, {1, 3, 2}),
                                                  .weight = TensorView(weight, DType::f32, {2, 3}),
                                                  .bias = TensorView(bias, DType::f32, {2}),
                                                  .initial_state = TensorView(state, DType::f32, {1, 2, 2}),
                                                  .output_final_state = true});
  EXPECT_EQ(values_of(result.o), (std::vector<double>{451.5, 20, 512.5, 40, 123.5, 60}));
  EXPECT_EQ(values_of(result.final_state), (std::vector<double>{2, 3, 20, 30}));
}

TEST(ShortConv, AgreesWithFloat64) {
  for (const ConvSpec& spec : conv_specs()) {
    for (const auto run : {&fla::short_conv, &fla::original::short_conv}) {
      const ConvCall call(spec);
      const fla::cases::ShortConvReference reference = fla::cases::reference_of(call.args);
      expect_agrees(run(call.args), reference, fla::cases::tolerance(spec.dtype), spec.text());
    }
  }
}

TEST(ShortConv, LayoutsDoNotChangeBits) {
  fla::cases::Random random(5);
  for (const ConvSpec& spec : conv_specs()) {
    for (int trial = 0; trial < 3; ++trial) {
      ConvCall call(spec);
      const Tensor last = fla::copy_to(call.initial_state, {});
      if (spec.slots.empty()) call.args.final_state = last;
      const LaidOutCall laid(call.args, [&](int rank) {
        return trial == 0 ? Layout::padded(rank) : Layout::random(rank, random);
      });
      const ShortConvResult result = fla::short_conv(laid.args), expected = fla::short_conv(call.args);
      EXPECT_EQ(bytes_of(result.o), bytes_of(expected.o)) << spec.text();
      EXPECT_EQ(bytes_of(result.final_state), bytes_of(expected.final_state)) << spec.text();
      EXPECT_TRUE(laid.intact()) << spec.text();
    }
  }
}

TEST(ShortConv, PackedSequencesHaveTheBitsOfSingleOnes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const ConvSpec spec{.D = 130, .dtype = dtype, .state_dtype = dtype, .lengths = {5, 0, 70, 1, 3}};
    const ConvCall call(spec);
    const ShortConvResult packed = fla::short_conv(call.args);
    std::int64_t begin = 0;
    for (std::size_t n = 0; n < spec.lengths.size(); ++n) {
      const auto slot = static_cast<std::int64_t>(n);
      ShortConvArgs one = call.args;
      one.x = call.args.x.slice(1, begin, spec.lengths[n]);
      one.initial_state = call.args.initial_state.slice(0, slot, 1);
      one.cu_seqlens = one.out = {};
      const ShortConvResult alone = fla::short_conv(one);
      EXPECT_EQ(bytes_of(alone.o), bytes_of(packed.o.view().slice(1, begin, spec.lengths[n])));
      EXPECT_EQ(bytes_of(alone.final_state), bytes_of(packed.final_state.view().slice(0, slot, 1)));
      begin += spec.lengths[n];
    }
  }
}

TEST(ShortConv, APrefillAndStepsHaveTheBitsOfOneLongerPrefill) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t W : {2, 3, 4}) {
      for (const std::int64_t prefill : {0, 1, 2, 9}) {
        const ConvCall call({.B = 2, .T = 14, .D = 67, .W = W, .dtype = dtype, .state_dtype = dtype});
        const ShortConvResult whole = fla::short_conv(call.args);
        const ConvCall again({.B = 2, .T = 14, .D = 67, .W = W, .dtype = dtype, .state_dtype = dtype});
        ShortConvArgs part = again.args;
        part.final_state = part.initial_state;
        for (std::int64_t begin = 0, count = prefill; begin < 14; begin += count, count = 1) {
          if (begin == 0 && count == 0) count = 1;
          part.x = again.args.x.slice(1, begin, count);
          part.out = again.args.out.slice(1, begin, count);
          (void)fla::short_conv(part);
        }
        EXPECT_EQ(bytes_of(again.args.out), bytes_of(whole.o)) << W << " " << prefill;
        EXPECT_EQ(bytes_of(part.final_state), bytes_of(whole.final_state)) << W << " " << prefill;
      }
    }
  }
}

TEST(ShortConv, AnEmptySequenceKeepsItsState) {
  const ConvCall call({.D = 9, .lengths = {0, 4, 0}});
  const ShortConvResult result = fla::short_conv(call.args);
  for (const std::int64_t n : {0, 2}) {
    EXPECT_EQ(bytes_of(result.final_state.view().slice(0, n, 1)),
              bytes_of(call.args.initial_state.slice(0, n, 1)));
  }
  const ConvCall none({.B = 2, .T = 0, .D = 9});
  EXPECT_EQ(bytes_of(fla::short_conv(none.args).final_state), bytes_of(none.initial_state));
}

TEST(ShortConv, SkippedSequencesGiveZerosAndLeaveThePoolAlone) {
  const ConvCall call({.D = 6, .lengths = {3, 5, 2}, .slots = {-1, 1, -7}, .pool = 3});
  const Tensor before = fla::copy_to(call.initial_state, {});
  const ShortConvResult result = fla::short_conv(call.args);
  EXPECT_EQ(values_of(result.o.view().slice(1, 0, 3)), std::vector<double>(18, 0.0));
  EXPECT_EQ(values_of(result.o.view().slice(1, 8, 2)), std::vector<double>(12, 0.0));
  for (const std::int64_t slot : {0, 2})
    EXPECT_EQ(bytes_of(call.args.final_state.slice(0, slot, 1)), bytes_of(before.view().slice(0, slot, 1)));
  EXPECT_NE(bytes_of(call.args.final_state.slice(0, 1, 1)), bytes_of(before.view().slice(0, 1, 1)));
}

TEST(ShortConv, TokensBehindTheLastSequenceAreZerosThatNothingIsReadFor) {
  ConvCall call({.D = 6, .lengths = {3, 2}, .unused = 4});
  for (std::int64_t i = 5 * 6; i < call.x.numel(); ++i)
    fla::cases::store(call.x, i, std::numeric_limits<double>::quiet_NaN());
  const ShortConvResult result = fla::short_conv(call.args);
  EXPECT_EQ(values_of(result.o.view().slice(1, 5, 4)), std::vector<double>(24, 0.0));
  for (const double value : values_of(result.o)) EXPECT_TRUE(std::isfinite(value));
}

TEST(ShortConv, LaterTokensAndOtherSequencesDoNotMatter) {
  const ConvSpec spec{.D = 6, .lengths = {9, 9}};
  const ConvCall call(spec);
  const ShortConvResult clean = fla::short_conv(call.args);
  ConvCall poisoned(spec);
  for (std::int64_t i = 4 * 6; i < 9 * 6; ++i)
    fla::cases::store(poisoned.x, i, std::numeric_limits<double>::quiet_NaN());
  const ShortConvResult result = fla::short_conv(poisoned.args);
  for (const auto& [begin, count] : {std::array<std::int64_t, 2>{0, 4}, {9, 9}}) {
    EXPECT_EQ(bytes_of(result.o.view().slice(1, begin, count)),
              bytes_of(clean.o.view().slice(1, begin, count)));
  }
}

TEST(ShortConv, ThreadsDoNotChangeBits) {
  const ConvSpec spec{.D = 700, .dtype = DType::bf16, .lengths = {200, 1, 60}};
  const ConvCall call(spec), again(spec);
  fla::set_num_threads(1);
  const ShortConvResult one = fla::short_conv(call.args);
  fla::set_num_threads(4);
  const ShortConvResult four = fla::short_conv(again.args);
  fla::set_num_threads(0);
  EXPECT_EQ(bytes_of(one.o), bytes_of(four.o));
  EXPECT_EQ(bytes_of(one.final_state), bytes_of(four.final_state));
}

TEST(ShortConv, AllocatesNothingWhenTheOutputsAreGiven) {
  const ConvCall call({.D = 70, .lengths = {3, 0, 9}, .slots = {1, 0, 3}, .pool = 4});
  fla::set_num_threads(1);
  (void)fla::short_conv(call.args);
  const std::uint64_t before = fla_test::allocations();
  (void)fla::short_conv(call.args);
  EXPECT_EQ(fla_test::allocations(), before);
  fla::set_num_threads(0);
}

TEST(ShortConv, MakesResultsThatAreNotGiven) {
  ConvCall call({.B = 2, .T = 3, .D = 4, .dtype = DType::bf16, .state_dtype = DType::f16});
  call.args.out = {};
  const ShortConvResult result = fla::short_conv(call.args);
  EXPECT_EQ(result.o.view().describe(), "bf16[2, 3, 4] on cpu");
  EXPECT_EQ(result.final_state.view().describe(), "f16[2, 4, 3] on cpu");
  call.args.initial_state = {};
  const ShortConvResult from_zeros = fla::short_conv(call.args);
  EXPECT_EQ(from_zeros.final_state.view().describe(), "f32[2, 4, 3] on cpu");
  call.args.output_final_state = false;
  EXPECT_FALSE(fla::short_conv(call.args).final_state.defined());
  EXPECT_EQ(fla::workspace_size(call.args), 0u);
}

}  // namespace
