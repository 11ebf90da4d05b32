#include "fla/ops/step/step.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/choice/function_backend.h"
#include "tests/core/error_text.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/recurrence/op_name.h"
#include "tests/ops/step/step_call.h"

namespace {

using fla::DType;
using fla::Tensor;
using fla::conformance::bytes_of;
using fla::conformance::Layout;
using fla_test::LaidOutCall;
using fla_test::run_original_step;
using fla_test::run_step;
using fla_test::step_specs;
using fla_test::StepCall;
using fla_test::StepSpec;

template <class Args>
class Step : public testing::Test {};
TYPED_TEST_SUITE(Step, fla_test::StepTypes, fla_test::OpName);

TYPED_TEST(Step, AgreesWithFloat64) {
  for (const auto& [K, V] : {std::pair{64, 64}, {128, 128}, {24, 40}, {1, 1}}) {
    for (const StepSpec& spec : step_specs(K, V)) {
      for (auto* const run : {+[](const TypeParam& args) { return run_step(args); },
                              +[](const TypeParam& args) { return run_original_step(args); }}) {
        const StepCall<TypeParam> call(spec);
        const auto reference = fla::cases::reference_of(call.args);
        EXPECT_EQ(run(call.args).o.data(), call.out.data());
        fla_test::expect_agrees(call.args, reference, spec);
      }
    }
  }
}

/// The recurrence's function of tokens, by itself.
fla::RecurrenceResult recurrent(const fla::KdaArgs& args) { return fla::original::fused_recurrent_kda(args); }
fla::RecurrenceResult recurrent(const fla::GatedDeltaRuleArgs& args) {
  return fla::original::fused_recurrent_gated_delta_rule(args);
}
template <class Args>
struct RecurrenceOf;
template <>
struct RecurrenceOf<fla::KdaStepArgs> {
  using Args = fla::KdaArgs;
};
template <>
struct RecurrenceOf<fla::GatedDeltaRuleStepArgs> {
  using Args = fla::GatedDeltaRuleArgs;
};

TYPED_TEST(Step, HasTheBitsOfTheThreeOpsOneAfterAnother) {
  for (const StepSpec& spec : step_specs(32, 16)) {
    const StepCall<TypeParam> call(spec), apart(spec);
    (void)run_original_step(call.args);
    const TypeParam& args = apart.args;
    const Tensor y = fla::original::short_conv({.x = args.x,
                                                .weight = args.conv_weight,
                                                .bias = args.conv_bias,
                                                .initial_state = args.conv_state,
                                                .output_final_state = spec.slots.empty(),
                                                .use_silu = true,
                                                .state_indices = args.state_indices,
                                                .final_state = args.conv_state})
                         .o;
    const auto heads = [&](std::int64_t begin, std::int64_t count, std::int64_t channels) {
      const std::int64_t D = y.size(2);
      return fla::TensorView(y.as<std::byte>() + begin * static_cast<std::int64_t>(size_of(spec.dtype)),
                             spec.dtype, {spec.B, 1, count, channels}, {D, D, channels, 1});
    };
    const std::int64_t keys = spec.H * spec.K;
    typename RecurrenceOf<TypeParam>::Args recurrence{.q = heads(0, spec.H, spec.K),
                                                      .k = heads(keys, spec.H, spec.K),
                                                      .v = heads(2 * keys, spec.HV, spec.V),
                                                      .g = args.g,
                                                      .beta = args.beta};
    recurrence.initial_state = recurrence.final_state = args.state;
    recurrence.output_final_state = spec.slots.empty();
    recurrence.use_qk_l2norm_in_kernel = args.use_qk_l2norm_in_kernel;
    recurrence.use_gate_in_kernel = args.use_gate_in_kernel;
    recurrence.use_beta_sigmoid_in_kernel = args.use_beta_sigmoid_in_kernel;
    recurrence.allow_neg_eigval = args.allow_neg_eigval;
    recurrence.lower_bound = args.lower_bound;
    recurrence.A_log = args.A_log, recurrence.dt_bias = args.dt_bias;
    recurrence.state_v_first = args.state_v_first;
    recurrence.state_indices = args.state_indices;
    const Tensor o = recurrent(recurrence).o;
    (void)fla::original::gated_rms_norm({.x = o,
                                         .g = args.z,
                                         .weight = args.norm_weight,
                                         .eps = args.norm_eps,
                                         .use_sigmoid = args.norm_use_sigmoid,
                                         .out = o});
    EXPECT_EQ(bytes_of(call.conv_state), bytes_of(apart.conv_state)) << spec.text();
    EXPECT_EQ(bytes_of(call.state), bytes_of(apart.state)) << spec.text();
    if (spec.dtype == spec.z_dtype) {
      EXPECT_EQ(fla::cases::relative_error(call.out, o), 0) << spec.text();  // zeros have either sign
    }
  }
}

TYPED_TEST(Step, ASequenceThatIsSkippedHasZerosWhateverItsInputsAre) {
  const StepSpec spec{.B = 3, .K = 16, .V = 8, .slots = {2, -1, 0}, .pool = 3};
  const StepCall<TypeParam> call(spec), clean(spec);
  (void)run_step(clean.args);
  for (const Tensor* tensor : {&call.x, &call.g, &call.beta, &call.z}) {
    const std::int64_t row = tensor->numel() / spec.B;
    for (std::int64_t i = row; i < 2 * row; ++i)
      fla::cases::store(*tensor, i, std::numeric_limits<double>::quiet_NaN());
  }
  (void)run_step(call.args);
  EXPECT_EQ(bytes_of(call.out), bytes_of(clean.out));
  for (std::int64_t i = 0; i < call.out.numel() / 3; ++i)
    EXPECT_EQ(fla::cases::element(call.out, call.out.numel() / 3 + i), 0);
  EXPECT_EQ(bytes_of(call.state), bytes_of(clean.state));
  EXPECT_EQ(bytes_of(call.conv_state), bytes_of(clean.conv_state));
}

TYPED_TEST(Step, LayoutsAndThreadsDoNotChangeBits) {
  fla::cases::Random random(5);
  for (const StepSpec& spec : step_specs(20, 12)) {
    const StepCall<TypeParam> call(spec), expected(spec);
    const LaidOutCall padded(call.args, &Layout::padded),
        anyhow(call.args, [&](int rank) { return Layout::random(rank, random); });
    (void)run_original_step(expected.args);
    for (const auto* laid : {&padded, &anyhow}) {
      fla::set_num_threads(3);
      (void)run_original_step(laid->args);
      fla::set_num_threads(0);
      EXPECT_EQ(bytes_of(laid->args.out), bytes_of(expected.out)) << spec.text();
      EXPECT_EQ(bytes_of(laid->args.state), bytes_of(expected.state)) << spec.text();
      EXPECT_EQ(bytes_of(laid->args.conv_state), bytes_of(expected.conv_state)) << spec.text();
      EXPECT_TRUE(laid->intact()) << spec.text();
    }
  }
}

TYPED_TEST(Step, ASequenceHasTheSameBitsAlone) {
  const StepSpec spec{.B = 3, .H = 2, .HV = 4, .K = 32, .V = 32};
  const StepCall<TypeParam> all(spec), alone(spec);
  (void)run_original_step(all.args);
  TypeParam one = alone.args;
  for (fla::TensorView* tensor : {&one.x, &one.conv_state, &one.g, &one.beta, &one.z, &one.state, &one.out})
    *tensor = tensor->slice(0, 1, 1);
  (void)run_original_step(one);
  EXPECT_EQ(bytes_of(one.out), bytes_of(all.out.view().slice(0, 1, 1)));
  EXPECT_EQ(bytes_of(one.state), bytes_of(all.state.view().slice(0, 1, 1)));
  EXPECT_EQ(bytes_of(one.conv_state), bytes_of(all.conv_state.view().slice(0, 1, 1)));
}

TYPED_TEST(Step, AFailureLeavesBothPoolsAsTheyWere) {
  const StepCall<TypeParam> call({.K = 16, .V = 16}), untouched({.K = 16, .V = 16});
  int asked = 0;
  const auto broken =
      fla::register_backend("common.l2_norm", {.name = "broken"}, [&asked](const fla::L2NormArgs& args) {
        if (++asked > 2) throw std::runtime_error("no norm");
        return fla::common::original::l2_norm(args);
      });
  EXPECT_NE(fla_test::error_text<std::exception>([&] { (void)run_step(call.args); }), "nothing was thrown");
  EXPECT_GT(asked, 2);
  EXPECT_EQ(bytes_of(call.state), bytes_of(untouched.state));
  EXPECT_EQ(bytes_of(call.conv_state), bytes_of(untouched.conv_state));
}

TYPED_TEST(Step, TakesNoSequences) {
  const StepCall<TypeParam> call({.B = 0, .K = 16, .V = 16, .pool = 2});
  const Tensor none = Tensor::empty({0}, DType::i64);
  TypeParam args = call.args;
  args.state_indices = none;
  EXPECT_EQ(run_step(args).o.numel(), 0);
}

}  // namespace
