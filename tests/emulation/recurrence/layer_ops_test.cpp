#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/ops/gated_rms_norm/call_of.h"
#include "fla/ops/gated_rms_norm/cuda_kernel.h"
#include "fla/ops/short_conv/call_of.h"
#include "fla/ops/short_conv/cuda_kernel.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/gated_rms_norm/norm_call.h"
#include "tests/ops/short_conv/conv_call.h"

/// The original kernels for GPUs of the ops of a layer around its recurrence, compiled by the C++ compiler
/// and run on the CPU.
namespace {

using fla::DType;
using fla::Tensor;
using fla::conformance::bytes_of;
using fla::conformance::Layout;
using fla_test::ConvCall;
using fla_test::ConvSpec;
using fla_test::LaidOutCall;
using fla_test::NormCall;
using fla_test::NormSpec;
using fla_test::poison;

fla::ShortConvResult run(const fla::ShortConvArgs& args) {
  fla::validate_arguments(args);
  fla::ShortConvResult result = fla::make_result(args);
  if (!args.final_state.defined()) poison(result.final_state);
  const fla::ShortConvCall call = fla::call_of(args, result);
  EXPECT_EQ(fla::cuda::launch_short_conv(
                call, fla_test::workspace_of(fla::cuda::short_conv_workspace(call)).get(), nullptr),
            cudaSuccess);
  return result;
}

TEST(EmulatedShortConv, AgreesWithTheReference) {
  for (const ConvSpec& spec : fla_test::conv_specs()) {
    const ConvCall call(spec);
    const auto reference = fla::cases::reference_of(call.args);
    fla_test::expect_agrees(run(call.args), reference, fla::cases::tolerance(spec.dtype), spec.text());
  }
}

TEST(EmulatedShortConv, ManySequencesOfEveryLengthMeetRunsOfTokensAnyhow) {
  for (const std::int64_t W : {2, 3, 4}) {
    ConvSpec spec{.D = 9, .W = W, .dtype = DType::bf16, .state_dtype = DType::bf16};
    for (std::int64_t length = 0; length < 20; ++length) spec.lengths.push_back(length * 7 % 20);
    const ConvCall call(spec);
    const auto reference = fla::cases::reference_of(call.args);
    const fla::ShortConvResult result = run(call.args);
    fla_test::expect_agrees(result, reference, fla::cases::tolerance(DType::bf16), spec.text());
    std::int64_t begin = 0;
    for (std::size_t n = 0; n < spec.lengths.size(); begin += spec.lengths[n++]) {
      fla::ShortConvArgs one = call.args;
      one.x = call.args.x.slice(1, begin, spec.lengths[n]);
      one.initial_state = call.args.initial_state.slice(0, static_cast<std::int64_t>(n), 1);
      one.cu_seqlens = one.out = {};
      EXPECT_EQ(bytes_of(run(one).o), bytes_of(result.o.view().slice(1, begin, spec.lengths[n])))
          << "other bits alone: " << n;
    }
  }
}

TEST(EmulatedShortConv, APrefillAndStepsHaveTheBitsOfOneLongerPrefill) {
  const ConvSpec spec{.T = 21, .D = 12, .dtype = DType::f16, .state_dtype = DType::f16};
  const ConvCall call(spec), again(spec);
  const fla::ShortConvResult whole = run(call.args);
  fla::ShortConvArgs part = again.args;
  part.final_state = part.initial_state;
  for (std::int64_t begin = 0, count = 17; begin < 21; begin += count, count = 1) {
    part.x = again.args.x.slice(1, begin, count), part.out = again.args.out.slice(1, begin, count);
    (void)run(part);
  }
  EXPECT_EQ(bytes_of(again.args.out), bytes_of(whole.o));
  EXPECT_EQ(bytes_of(again.initial_state), bytes_of(whole.final_state));
}

TEST(EmulatedShortConv, LayoutsDoNotChangeBits) {
  fla::cases::Random random(5);
  for (const ConvSpec& spec : fla_test::conv_specs()) {
    ConvCall call(spec);
    const Tensor last = fla::copy_to(call.initial_state, {});
    if (spec.slots.empty()) call.args.final_state = last;
    const LaidOutCall padded(call.args, &Layout::padded),
        anyhow(call.args, [&](int rank) { return Layout::random(rank, random); });
    const fla::ShortConvResult expected = run(call.args);
    for (const auto* laid : {&padded, &anyhow}) {
      const fla::ShortConvResult result = run(laid->args);
      EXPECT_EQ(bytes_of(result.o), bytes_of(expected.o)) << spec.text();
      EXPECT_EQ(bytes_of(result.final_state), bytes_of(expected.final_state)) << spec.text();
      EXPECT_TRUE(laid->intact()) << spec.text();
    }
  }
}

TEST(EmulatedShortConv, WrongContentsOfIndicesStayInBounds) {
  // As they may be on a device, where nobody looks at them before the kernel does.
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::vector<std::int64_t>> bad_starts{
      {0, 20, 3, 27}, {27, 18, 9, 0}, {0, 27, 0, 27}, {-5, 30, 8, 1 << 30}, {kFar, -kFar, kFar, -kFar}};
  const std::vector<std::vector<std::int64_t>> bad_slots{
      {3, -1, std::int64_t{1} << 40}, {2, 2, 2}, {kFar, -kFar, 0}};
  for (const auto& starts : bad_starts) {
    for (const auto& slots : bad_slots) {
      const ConvCall call({.D = 5, .lengths = {9, 9, 9}, .slots = {0, 1, 2}, .pool = 3});
      const LaidOutCall laid(call.args, &Layout::padded);
      fla::ShortConvCall lowered = fla::call_of(laid.args, fla::make_result(laid.args));
      lowered.cu_seqlens = {.data = starts.data(), .wide = true};
      lowered.read_slots = {.data = slots.data(), .wide = true};
      EXPECT_EQ(fla::cuda::launch_short_conv(lowered, nullptr, nullptr), cudaSuccess);
      EXPECT_TRUE(laid.intact());
      if (slots != bad_slots.front()) continue;
      EXPECT_EQ(bytes_of(laid.args.final_state), bytes_of(call.initial_state)) << "no sequence has a slot";
      fla::conformance::for_each_offset(laid.args.out, [&](std::int64_t at) {
        const double value = fla::cases::element(laid.args.out, at);
        EXPECT_TRUE(value == 0 || value == 7) << "skipped, or no sequence's";
      });
    }
  }
}

TEST(EmulatedShortConv, TokensBehindTheLastSequenceAreNeitherReadNorWritten) {
  const ConvCall call({.D = 6, .lengths = {3, 2, 19}, .unused = 20});
  fla::cases::ShortConvReference reference = fla::cases::reference_of(call.args);
  fla::ShortConvResult result = fla::make_result(call.args);  // clears them: cu_seqlens are on the host
  for (std::int64_t i = 24 * 6; i < call.x.numel(); ++i) {
    fla::cases::store(call.x, i, std::numeric_limits<double>::quiet_NaN());
    fla::cases::store(result.o, i, 7);
    reference.o[static_cast<std::size_t>(i)] = 7;
  }
  fla::ShortConvCall lowered = fla::call_of(call.args, result);
  lowered.cu_seqlens.on_host = false;
  EXPECT_EQ(fla::cuda::launch_short_conv(lowered, nullptr, nullptr), cudaSuccess);
  fla_test::expect_agrees(result, reference, fla::cases::tolerance(DType::f32), "padded");
}

TEST(EmulatedGatedRmsNorm, AgreesWithTheReferenceAlsoInPlace) {
  for (const NormSpec& spec : fla_test::norm_specs()) {
    const NormCall call(spec);
    const std::vector<double> reference = fla::cases::reference_of(call.args);
    const double tolerance = fla::cases::tolerance(spec.dtype);
    fla::GatedRmsNormResult result = fla::make_result(call.args);
    poison(result.o);
    ASSERT_EQ(fla::cuda::launch_gated_rms_norm(fla::call_of(call.args, result), nullptr), cudaSuccess);
    EXPECT_LE(fla::cases::relative_error(result.o, reference), tolerance) << spec.text();
    const fla::GatedRmsNormResult in_place{call.x};
    ASSERT_EQ(fla::cuda::launch_gated_rms_norm(fla::call_of(call.args, in_place), nullptr), cudaSuccess);
    EXPECT_EQ(bytes_of(call.x), bytes_of(result.o)) << spec.text() << ": in place";
  }
}

TEST(EmulatedGatedRmsNorm, LayoutsDoNotChangeBits) {
  fla::cases::Random random(6);
  for (const NormSpec& spec : fla_test::norm_specs()) {
    NormCall call(spec);
    const fla::GatedRmsNormResult expected = fla::make_result(call.args);
    ASSERT_EQ(fla::cuda::launch_gated_rms_norm(fla::call_of(call.args, expected), nullptr), cudaSuccess);
    const Tensor out = fla::copy_to(call.x, {});
    call.args.out = out;
    const LaidOutCall padded(call.args, &Layout::padded),
        anyhow(call.args, [&](int rank) { return Layout::random(rank, random); });
    for (const auto* laid : {&padded, &anyhow}) {
      const fla::GatedRmsNormCall lowered = fla::call_of(laid->args, fla::make_result(laid->args));
      ASSERT_EQ(fla::cuda::launch_gated_rms_norm(lowered, nullptr), cudaSuccess);
      EXPECT_EQ(bytes_of(laid->args.out), bytes_of(expected.o)) << spec.text();
      EXPECT_TRUE(laid->intact()) << spec.text();
    }
  }
}

}  // namespace
