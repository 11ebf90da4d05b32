#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fla/dispatch/observe/explain.h"
#include "fla/ops/ops.h"
#include "fla/ops/recurrence/call_of.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"
#include "tools/cases/recurrence_reference.h"

/// What holds for every op of the family, on the original kernels.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;

Tensor filled(std::initializer_list<std::int64_t> shape, std::uint64_t seed, float low, float high) {
  Tensor tensor = Tensor::empty(shape, DType::f32);
  fla::cases::Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.as<float>()[i] = low + (high - low) * random.uniform();
  return tensor;
}

/// Tensors for any op: 3 packed sequences, the second of them empty, 2 key heads, 4 value heads.
struct Inputs {
  static constexpr std::int64_t T = 41, H = 2, HV = 4, K = 12, V = 20, N = 3, P = 5;
  Tensor q = filled({1, T, H, K}, 1, -1, 1), k = filled({1, T, H, K}, 2, -0.3f, 0.3f),
         v = filled({1, T, HV, V}, 3, -1, 1), gates = filled({1, T, HV, K}, 4, -0.5f, 0),
         scalars = filled({1, T, HV}, 5, -0.5f, 0), beta = filled({1, T, HV}, 6, 0, 1),
         a = filled({1, T, H, K}, 7, -0.3f, 0.3f), b = filled({1, T, H, K}, 8, -0.3f, 0.3f),
         gamma = filled({HV}, 9, -0.2f, 0), pool = filled({P, HV, K, V}, 10, -1, 1);
  std::vector<std::int64_t> starts{0, 19, 19, T}, reads{4, 2, 0}, writes{1, 3, -1};

  /// The call of an op, which gets those that it has.
  template <class Args>
  Args call() const {
    Args args{.q = q, .k = k, .v = v};
    if constexpr (Args::kOp.rule == fla::Rule::delta) args.beta = beta;
    if constexpr (Args::kOp.rule == fla::Rule::low_rank) args.a = a, args.b = b;
    if constexpr (Args::kOp.gate == fla::GateKind::channel) args.g = gates;
    if constexpr (Args::kOp.gate == fla::GateKind::token) args.g = scalars;
    if constexpr (requires { args.layer_idx; }) args.layer_idx = 1, args.num_layers = 4;
    args.output_final_state = true;
    args.cu_seqlens = {starts.data(), DType::i64, {N + 1}};
    return args;
  }
};

template <class Args>
using Function = fla::RecurrenceResult (*)(const Args&);

template <class Args>
void expect_reference(const Args& args, std::initializer_list<Function<Args>> functions,
                      const std::string& what) {
  const fla::cases::Reference reference = fla::cases::recurrence_reference(
      fla::call_of(args, {}), fla::recurrence::pair_of(fla::recurrence::arguments_of(args)));
  for (const Function<Args> run : functions) {
    const fla::RecurrenceResult result = run(args);
    const fla::cases::Errors errors = fla::cases::errors_of(result.o, result.final_state, reference);
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
    const Tensor q = filled({1, Inputs::T, Inputs::H, Inputs::K}, 11, 0, 1),
                 k = filled({1, Inputs::T, Inputs::H, Inputs::K}, 12, 0, 1);
    Args normalized = args;
    normalized.q = q, normalized.k = k, normalized.normalize = true;
    expect(normalized, "normalized");
  }
  args.state_indices = {inputs.reads.data(), DType::i64, {Inputs::N}};
  args.state_write_indices = {inputs.writes.data(), DType::i64, {Inputs::N}};
  args.initial_state = inputs.pool;
  const Tensor written = Tensor::zeros({Inputs::P, Inputs::HV, Inputs::K, Inputs::V}, DType::f32);
  args.final_state = written;
  expect(args, "in a pool");
  args.output_final_state = false;
  const TensorView turned(
      inputs.pool.data(), DType::f32, std::array{Inputs::P, Inputs::HV, Inputs::V, Inputs::K},
      std::array{Inputs::HV * Inputs::K * Inputs::V, Inputs::K * Inputs::V, std::int64_t{1}, Inputs::V});
  args.state_v_first = true;
  args.initial_state = turned;
  const Tensor turned_result = Tensor::zeros({Inputs::P, Inputs::HV, Inputs::V, Inputs::K}, DType::f32);
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

/// What gates may be: nearly none, ordinary ones, some that leave nothing in a few tokens or at once, and
/// such that let the state grow.
const std::pair<const char*, float (*)(fla::cases::Random&)> kGates[] = {
    {"slow", [](fla::cases::Random& random) { return -0.01f * random.uniform(); }},
    {"ordinary", [](fla::cases::Random& random) { return -5 * random.uniform(); }},
    {"strong", [](fla::cases::Random& random) { return -125 * random.uniform(); }},
    {"resets", [](fla::cases::Random& random) { return random.chance(0.1f) ? -INFINITY : -0.01f; }},
    {"growing", [](fla::cases::Random& random) { return 0.2f * random.uniform(); }},
};

template <class Args>
void expect_any_gate(Function<Args> chunk, Function<Args> recurrent) {
  if constexpr (requires(Args args) { args.g; }) {
    Inputs inputs;
    for (const auto& [name, gate] : kGates) {
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

TEST(Family, CpuSimdTakesEveryOpButTwo) {
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
  EXPECT_EQ(answer(inputs.call<fla::DplrDeltaRuleArgs>()), "none");
  auto linear = inputs.call<fla::LinearAttnArgs>();
  EXPECT_EQ(answer(linear), "selected");
  linear.normalize = true;
  EXPECT_EQ(answer(linear), "refused: does not normalize outputs");
  auto gla = inputs.call<fla::GlaArgs>();
  const Tensor wide = Tensor::zeros({1, Inputs::T, Inputs::HV, 2 * Inputs::K}, DType::f32);
  gla.g = TensorView(
      wide.data(), DType::f32, gla.g.shape(),
      std::array<std::int64_t, 4>{wide.view().stride(0), wide.view().stride(1), wide.view().stride(2), 2});
  EXPECT_EQ(answer(gla), "refused: requires contiguous channels in g, got stride 2");
}

/// A NaN in v at a token is in its column of the outputs from there on, and nowhere before.
template <class Args>
void expect_causal(Function<Args> run) {
  Inputs inputs;
  const std::int64_t token = 7, head = 1, column = 3;
  inputs.v.as<float>()[(token * Inputs::HV + head) * Inputs::V + column] = NAN;
  const fla::RecurrenceResult result = run(inputs.call<Args>());
  for (std::int64_t t = 0; t < Inputs::T; ++t) {
    for (std::int64_t i = 0; i < Inputs::HV * Inputs::V; ++i) {
      const bool spoilt = i == head * Inputs::V + column && t >= token && t < 19;
      EXPECT_EQ(std::isnan(result.o.as<float>()[t * Inputs::HV * Inputs::V + i]), spoilt)
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
