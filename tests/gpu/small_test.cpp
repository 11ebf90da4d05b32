#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/gpu/allocated_apart.h"
#include "tests/gpu/gpu_agreement.h"
#include "tests/ops/gated_rms_norm/norm_call.h"
#include "tests/ops/short_conv/conv_call.h"
#include "tests/ops/step/step_call.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// A few small calls of every kernel, option and layout: what compute-sanitizer watches, which makes each of
/// them a hundred times dearer.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::Layout;
using fla::conformance::PooledCall;
using fla::conformance::PoolWrites;
using fla::conformance::Surrounded;
using fla_test::expect_agreement_on_gpu;
using fla_test::kEveryWay;
using fla_test::kGpu;

using SmallOnGpu = fla_test::AllocatedApart<fla_test::GpuTest>;

TEST_F(SmallOnGpu, DecodesWithBothStateTypesAndLayouts) {
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const bool v_first : {false, true}) {
      for (const std::int64_t T : {1, 3, 6})
        expect_agreement_on_gpu(make_kda_case({.B = 3,
                                               .T = T,
                                               .H = 1,
                                               .HV = 2,
                                               .K = v_first ? 64 : 128,
                                               .V = state == DType::f32 ? 64 : 128,
                                               .dtype = DType::bf16,
                                               .gate_dtype = v_first ? DType::bf16 : DType::f32,
                                               .state_dtype = state,
                                               .options = {.output_final_state = true,
                                                           .use_qk_l2norm_in_kernel = true,
                                                           .use_gate_in_kernel = true,
                                                           .use_beta_sigmoid_in_kernel = true,
                                                           .lower_bound = -5.0f,
                                                           .state_v_first = v_first}})
                                    .args);
    }
  }
}

TEST_F(SmallOnGpu, DecodesAndPrefillsInAPool) {
  std::uint64_t turn = 0;
  for (const std::int64_t tokens : {1, 5, 20}) {
    for (const auto writes : {PoolWrites::in_place, PoolWrites::moved, PoolWrites::apart}) {
      ++turn;
      const KdaCase made = make_kda_case({.B = 4, .T = tokens, .H = 1, .HV = 2, .K = 64, .V = 64});
      const auto reference = fla::cases::reference_of(made.args);
      for (const auto& [name, run] : kEveryWay) {
        const PooledCall pooled(made.args,
                                {.writes = writes, .index_dtype = turn % 2 == 0 ? DType::i32 : DType::i64});
        DeviceCall there(pooled.args(), kGpu,
                         turn % 3 == 0 ? DeviceIndices::on_host : DeviceIndices::on_device);
        EXPECT_EQ(pooled.wrong(there.bring_back(run(there.args())), reference), "") << name;
        EXPECT_EQ(there.damage(), "") << name;
      }
    }
  }
}

TEST_F(SmallOnGpu, PrefillsWithEverySizeOfKeys) {
  const std::array<DType, 3> dtypes{DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  for (const std::int64_t K : {5, 32, 64, 100, 128, 200, 256}) {
    const DType dtype = dtypes[turn++ % 3];
    expect_agreement_on_gpu(make_kda_case({.T = 40,
                                           .H = 1,
                                           .HV = 2,
                                           .K = K,
                                           .V = K == 64 ? 128 : 24,
                                           .dtype = dtype,
                                           .gate_dtype = turn % 2 == 0 ? dtype : DType::f32,
                                           .data = turn % 2 == 0 ? DataKind::strong : DataKind::mixed,
                                           .options = {.output_final_state = true,
                                                       .use_qk_l2norm_in_kernel = turn % 2 == 0,
                                                       .use_gate_in_kernel = turn % 2 == 0,
                                                       .use_beta_sigmoid_in_kernel = turn % 2 == 0,
                                                       .allow_neg_eigval = turn % 2 == 0,
                                                       .state_v_first = turn % 3 == 0}})
                                .args);
  }
}

/// What flash_kda takes where it is; somebody does everywhere.
TEST_F(SmallOnGpu, PrefillsOn16BitTensorCores) {
  const auto expect_agreement = [](const KdaSpec& spec) {
    const KdaCase made = make_kda_case(spec);
    const auto reference = fla::cases::reference_of(made.args);
    DeviceCall call(made.args, kGpu);
    const std::string selected = fla_test::selected_backend("chunk_kda", call.args());
    const KdaResult result = call.bring_back(fla::chunk_kda(call.args()));
    EXPECT_EQ(call.damage(), "") << selected;
    fla_test::expect_within_bars(result, reference, made.args, "chunk_kda", selected);
  };
  const KdaArgs inside{.output_final_state = true,
                       .use_qk_l2norm_in_kernel = true,
                       .use_gate_in_kernel = true,
                       .use_beta_sigmoid_in_kernel = true,
                       .lower_bound = -5.0f,
                       .state_v_first = true};
  KdaArgs softplus = inside;
  softplus.lower_bound.reset();
  const DType bf16 = DType::bf16, f16 = DType::f16;
  expect_agreement({.T = 130, .H = 1, .K = 128, .V = 128, .dtype = f16});
  expect_agreement(
      {.T = 70, .H = 1, .HV = 2, .K = 128, .V = 128, .dtype = bf16, .gate_dtype = bf16, .options = inside});
  expect_agreement({.T = 70,
                    .H = 1,
                    .K = 128,
                    .V = 128,
                    .dtype = f16,
                    .gate_dtype = f16,
                    .data = DataKind::strong,
                    .options = softplus});
  expect_agreement({.H = 1, .HV = 2, .K = 128, .V = 128, .lengths = {0, 70, 1, 0, 64}, .dtype = bf16});
  expect_agreement({.H = 3,
                    .K = 128,
                    .V = 128,
                    .lengths = {65, 3},
                    .dtype = bf16,
                    .gate_dtype = bf16,
                    .initial_state = false,
                    .fused_projection = true});
  // Long enough to be cut into segments.
  expect_agreement({.T = 1100, .H = 1, .K = 128, .V = 128, .dtype = bf16, .data = DataKind::slow});
  expect_agreement({.B = 2, .T = 0, .H = 1, .K = 128, .V = 128, .dtype = bf16});
}

TEST_F(SmallOnGpu, PacksSequences) {
  for (const DType index : {DType::i32, DType::i64}) {
    expect_agreement_on_gpu(make_kda_case({.H = 1,
                                           .HV = 2,
                                           .K = 64,
                                           .V = 64,
                                           .lengths = {0, 1, 33, 0, 36},
                                           .dtype = DType::bf16,
                                           .gate_dtype = DType::bf16,
                                           .index_dtype = index,
                                           .initial_state = index == DType::i32,
                                           .fused_projection = true})
                                .args);
  }
}

TEST_F(SmallOnGpu, HonoursStrides) {
  fla::cases::Random random(8);
  for (const std::int64_t tokens : {1, 35}) {
    const KdaCase call = make_kda_case({.T = tokens, .H = 1, .HV = 2, .K = 36, .V = 20, .dtype = DType::f16});
    const Surrounded strided(call.args,
                             [&](const fla::Argument&, int rank) { return Layout::random(rank, random); });
    expect_agreement_on_gpu(strided.args);
  }
}

template <class Args>
void expect_of_op(std::initializer_list<fla::RecurrenceResult (*)(const Args&)> ways) {
  const auto expect = [&](const fla::cases::CaseSpec<Args>& spec) {
    const fla::cases::RandomCase<Args> made = fla::cases::make_case(spec);
    const fla::cases::Reference reference = fla::cases::reference_of(made.args);
    for (auto* const run : ways) {
      DeviceCall call(made.args, kGpu);
      const fla::cases::Errors errors = fla::cases::errors_of(call.bring_back(run(call.args())), reference);
      EXPECT_EQ(call.damage(), "") << Args::kOp.name;
      EXPECT_LE(errors.worst(), fla::cases::tolerance(made.args.q.dtype())) << Args::kOp.name;
    }
  };
  fla::cases::CaseSpec<Args> spec{.H = 1, .HV = 2, .K = 20, .V = 40, .lengths = {70, 0, 5}};
  expect(spec);
  spec.dtype = DType::bf16, spec.K = 128, spec.V = 32;
  if constexpr (requires(Args args) { args.g_gamma; }) spec.head_gates = true;
  if constexpr (requires(Args args) { args.normalize; }) spec.options.normalize = true;
  expect(spec);
  spec.lengths.clear(), spec.B = 3, spec.T = 1, spec.V = 64;
  expect(spec);
}

TEST_F(SmallOnGpu, RunsEveryOp) {
#define FLA_OP(NAME, ARGS) \
  expect_of_op<fla::ARGS>({&fla::NAME, &fla::original::chunk_##NAME, &fla::original::fused_recurrent_##NAME});
  FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
}

template <class Args>
void expect_gradients_of_op(fla::RecurrenceGradients (*run)(const typename Args::Backward&)) {
  const auto expect = [&](const fla::cases::CaseSpec<Args>& spec) {
    const fla::cases::BackwardCase<Args> made(spec);
    const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(made.args));
    DeviceCall<typename Args::Backward> call(made.args, kGpu);
    const auto gradients = fla::cases::named_gradients(call.bring_back(run(call.args())));
    EXPECT_EQ(call.damage(), "") << Args::kOp.name;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].second.defined()) continue;
      EXPECT_LE(fla::cases::gradient_error(gradients[i].second, reference[i].second),
                fla::cases::gradient_tolerance(spec.dtype))
          << Args::kOp.name << " " << gradients[i].first;
    }
  };
  fla::cases::CaseSpec<Args> spec{.H = 1, .HV = 2, .K = 20, .V = 40, .lengths = {70, 0, 5}};
  expect(spec);
  spec.dtype = DType::bf16, spec.K = 200, spec.V = 32;
  if constexpr (requires(Args args) { args.g_gamma; }) spec.head_gates = true;
  if constexpr (requires(Args args) { args.normalize; }) spec.options.normalize = true;
  expect(spec);
}

TEST_F(SmallOnGpu, GradientsOfEveryOp) {
#define FLA_OP(NAME, ARGS) expect_gradients_of_op<fla::ARGS>(&fla::original::chunk_##NAME##_backward);
  FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
}

TEST_F(SmallOnGpu, RunsTheOpsOfALayerAroundItsRecurrence) {
  for (const fla_test::ConvSpec& spec : fla_test::conv_specs()) {
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      if (indices == DeviceIndices::on_device && spec.unused > 0) continue;  // outputs behind are not written
      const fla_test::ConvCall made(spec);
      const auto reference = fla::cases::reference_of(made.args);
      DeviceCall call(made.args, kGpu, indices);
      fla_test::expect_agrees(call.bring_back(fla::short_conv(call.args())), reference,
                              fla::cases::tolerance(spec.dtype), spec.text());
      EXPECT_EQ(call.damage(), "") << spec.text();
    }
  }
  for (const fla_test::NormSpec& spec : fla_test::norm_specs()) {
    const fla_test::NormCall made(spec);
    DeviceCall call(made.args, kGpu);
    const fla::GatedRmsNormResult result = call.bring_back(fla::gated_rms_norm(call.args()));
    EXPECT_LE(fla::cases::relative_error(result.o, fla::cases::reference_of(made.args)),
              fla::cases::tolerance(spec.dtype))
        << spec.text();
    EXPECT_EQ(call.damage(), "") << spec.text();
  }
}

template <class Args>
void expect_steps() {
  for (auto* const run : {+[](const Args& args) { return fla_test::run_step(args); },
                          +[](const Args& args) { return fla_test::run_original_step(args); }}) {
    for (const fla_test::StepSpec& spec : fla_test::step_specs(128, 64)) {
      const fla_test::StepCall<Args> made(spec);
      const auto reference = fla::cases::reference_of(made.args);
      DeviceCall call(made.args, kGpu);
      (void)call.bring_back(run(call.args()));
      EXPECT_EQ(call.damage(), "") << spec.text();
      fla_test::expect_agrees(made.args, reference, spec);
    }
  }
}

TEST_F(SmallOnGpu, RunsStepsOfWholeLayers) {
#define FLA_OP(NAME, ARGS) expect_steps<fla::ARGS>();
  FLA_STEP_OPS(FLA_OP)
#undef FLA_OP
}

TEST_F(SmallOnGpu, RunsNothingForNoTokens) {
  expect_agreement_on_gpu(make_kda_case({.B = 2, .T = 0, .H = 1, .K = 16, .V = 16}).args);
  expect_agreement_on_gpu(make_kda_case({.H = 1, .K = 16, .V = 16, .lengths = {0, 0}}).args);
}

}  // namespace
