#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "fla/dispatch/observe/explain.h"
#include "tests/ops/recurrence/family_inputs.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/reference_of.h"

/// What holds for every op of the family, on the original kernels.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla_test::filled;
using Inputs = fla_test::FamilyInputs;

template <class Args>
using Function = fla::RecurrenceResult (*)(const Args&);

template <class Args>
void expect_reference(const Args& args, std::initializer_list<Function<Args>> functions,
                      const std::string& what) {
  const fla::cases::Reference reference = fla::cases::reference_of(args);
  for (const Function<Args> run : functions) {
    const fla::RecurrenceResult result = run(args);
    const fla::cases::Errors errors = fla::cases::errors_of(result, reference);
    EXPECT_LE(errors.worst(), fla::cases::tolerance(DType::f32)) << Args::kOp.name << ", " << what;
  }
}

template <class Args>
void expect_all(Function<Args> door, Function<Args> chunk, Function<Args> recurrent) {
  const Inputs inputs;
  const auto expect = [&](const Args& args, const std::string& what) {
    expect_reference(args, {door, chunk, recurrent}, what);
  };
  Args args = inputs.call<Args>();
  expect(args, "packed");
  args.scale = 0.7f;
  expect(args, "scaled");
  if constexpr (requires { args.g_gamma; }) {
    args.g = {}, args.g_gamma = inputs.gamma;
    expect(args, "a gate a head");
  }
  if constexpr (requires { args.normalize; }) {
    // Of keys and queries that are not negative, as feature maps make them: a sum of about 0 says nothing.
    const Tensor q = inputs.keys(11, 0, 1), k = inputs.keys(12, 0, 1);
    Args normalized = args;
    normalized.q = q, normalized.k = k, normalized.normalize = true;
    expect(normalized, "normalized");
  }
  args.state_indices = {inputs.reads.data(), DType::i64, {3}};
  args.state_write_indices = {inputs.writes.data(), DType::i64, {3}};
  args.initial_state = inputs.pool;
  const auto [B, T, H, HV, K, V, P, dtype, state] = inputs.of;
  const Tensor written = Tensor::zeros({P, HV, K, V}, DType::f32);
  args.final_state = written;
  expect(args, "in a pool");
  args.output_final_state = false;
  const TensorView turned(inputs.pool.data(), DType::f32, std::array{P, HV, V, K},
                          std::array{HV * K * V, K * V, std::int64_t{1}, V});
  args.state_v_first = true;
  args.initial_state = turned;
  const Tensor turned_result = Tensor::zeros({P, HV, V, K}, DType::f32);
  args.final_state = turned_result;
  expect(args, "states of [V, K]");
}

#define FLA_OP(NAME, ARGS)                                                                                   \
  TEST(Family, NAME##_agrees_with_the_reference) {                                                           \
    expect_all<fla::ARGS>(&fla::NAME, &fla::chunk_##NAME, &fla::fused_recurrent_##NAME);                     \
    expect_all<fla::ARGS>(&fla::NAME, &fla::original::chunk_##NAME, &fla::original::fused_recurrent_##NAME); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

template <class Args>
void expect_any_gate(Function<Args> chunk, Function<Args> recurrent) {
  if constexpr (requires(Args args) { args.g; }) {
    Inputs inputs;
    for (const auto& [name, gate] : fla_test::kFamilyGates) {
      fla::cases::Random random(13);
      for (const Tensor& tensor : {inputs.gates, inputs.scalars}) {
        for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.as<float>()[i] = gate(random);
      }
      expect_reference(inputs.call<Args>(), {chunk, recurrent}, name);
    }
  }
}

#define FLA_OP(NAME, ARGS)                                                        \
  TEST(Family, NAME##_takes_any_gate) {                                           \
    expect_any_gate<fla::ARGS>(&fla::chunk_##NAME, &fla::fused_recurrent_##NAME); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

TEST(Family, CpuSimdTakesEveryOp) {
  const Inputs inputs;
  const auto answer = []<class Args>(const Args& args) {
    const fla::Explanation explanation = fla::explain(Args::kOp.name, Args::kOp.chunk, args);
    for (const fla::Explanation::Row& row : explanation.rows) {
      if (row.name == "cpu_simd") return row.state + (row.reason.empty() ? "" : ": " + row.reason);
    }
    return std::string("none");
  };
  EXPECT_EQ(answer(inputs.call<fla::GatedDeltaRuleArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::DeltaRuleArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::GlaArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::SimpleGlaArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::RetentionArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::LightningAttnArgs>()), "selected");
  EXPECT_EQ(answer(inputs.call<fla::DplrDeltaRuleArgs>()), "selected");
  auto linear = inputs.call<fla::LinearAttnArgs>();
  EXPECT_EQ(answer(linear), "selected");
  linear.normalize = true;
  EXPECT_EQ(answer(linear), "selected");
  auto gla = inputs.call<fla::GlaArgs>();
  const Tensor wide = Tensor::zeros({1, inputs.of.T, inputs.of.HV, 2 * inputs.of.K}, DType::f32);
  gla.g = TensorView(
      wide.data(), DType::f32, gla.g.shape(),
      std::array<std::int64_t, 4>{wide.view().stride(0), wide.view().stride(1), wide.view().stride(2), 2});
  EXPECT_EQ(answer(gla), "refused: requires contiguous channels in g, got stride 2");
}

/// A NaN in v at a token is in its column of the outputs from there on, and nowhere before.
template <class Args>
void expect_causal(Function<Args> run) {
  Inputs inputs;
  const std::int64_t token = 7, head = 1, column = 3, T = inputs.of.T, HV = inputs.of.HV, V = inputs.of.V;
  inputs.v.as<float>()[(token * HV + head) * V + column] = NAN;
  const fla::RecurrenceResult result = run(inputs.call<Args>());
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t i = 0; i < HV * V; ++i) {
      const bool spoilt = i == head * V + column && t >= token && t < 19;
      EXPECT_EQ(std::isnan(result.o.as<float>()[t * HV * V + i]), spoilt)
          << Args::kOp.name << " token " << t << " at " << i;
    }
  }
}

#define FLA_OP(NAME, ARGS)                                  \
  TEST(Family, NAME##_is_causal) {                          \
    expect_causal<fla::ARGS>(&fla::chunk_##NAME);           \
    expect_causal<fla::ARGS>(&fla::fused_recurrent_##NAME); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace
