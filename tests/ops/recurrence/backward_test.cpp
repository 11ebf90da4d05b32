#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/ops/recurrence/family_inputs.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"

/// What holds for the gradients of every op of the family.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla_test::filled;

/// A random call and the gradients that come in.
template <class Args>
struct BackwardCase {
  explicit BackwardCase(const fla::cases::CaseSpec<Args>& spec)
      : forward(fla::cases::make_case(spec)),
        upstream(filled(shape_of(forward.args.v), spec.dtype, spec.seed + 50, -1, 1)) {
    if (spec.options.output_final_state) {
      const auto [B, T, H, HV, K, V, N] = fla::sizes_of(forward.args);
      const bool turned = spec.options.state_v_first;
      of_state = filled({N, HV, turned ? V : K, turned ? K : V}, DType::f32, spec.seed + 51, -1, 1);
    }
    args = fla::cases::backward_call(forward.args, upstream, of_state);
  }

  static std::vector<std::int64_t> shape_of(const TensorView& tensor) {
    return {tensor.shape().begin(), tensor.shape().end()};
  }

  fla::cases::RandomCase<Args> forward;
  Tensor upstream, of_state;
  typename Args::Backward args;
};

using Named = std::vector<std::pair<std::string, Tensor>>;
Named all_of(const fla::RecurrenceGradients& gradients) {
  Named named;
#define FLA_INPUT(name) named.emplace_back("d" #name, gradients.d##name);
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  return named;
}
std::vector<std::pair<std::string, std::vector<double>>> all_of(
    const fla::cases::GradientReference& gradients) {
  std::vector<std::pair<std::string, std::vector<double>>> named;
#define FLA_INPUT(name) named.emplace_back("d" #name, gradients.d##name);
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  return named;
}

/// The relative error; of what lies at the end of f32's range, how large it is.
double error_of(const Tensor& gradient, const std::vector<double>& reference) {
  const auto is_gone = [](double x) { return std::abs(x) < 1e-35; };
  return fla::cases::relative_error(gradient, std::ranges::all_of(reference, is_gone)
                                                  ? std::vector<double>(reference.size(), 0.0)
                                                  : reference);
}

template <class Args>
constexpr auto kBackward = fla::cases::Functions<Args>::original_backward;

template <class Args>
void expect_reference(const fla::cases::CaseSpec<Args>& spec, const std::string& what) {
  const BackwardCase<Args> made(spec);
  const auto reference = all_of(fla::cases::gradient_reference_of(made.args));
  const Named gradients = all_of(kBackward<Args>(made.args));
  const bool repeats = spec.data == fla::cases::DataKind::repeated_keys;
  const double tolerance = fla::cases::gradient_tolerance(spec.dtype) * (repeats ? 2 : 1);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, gradient] = gradients[i];
    ASSERT_EQ(gradient.defined(), !reference[i].second.empty())
        << Args::kOp.name << ", " << what << ", " << name;
    if (!gradient.defined()) continue;
    EXPECT_LE(error_of(gradient, reference[i].second), tolerance)
        << Args::kOp.name << ", " << what << ", " << name;
  }
}

template <class Args>
void expect_all() {
  using Spec = fla::cases::CaseSpec<Args>;
  const Spec packed{.H = 1, .HV = 2, .K = 12, .V = 20, .lengths = {19, 0, 290, 1}};
  expect_reference<Args>(packed, "packed");
  Spec turned{.B = 2, .T = 70, .H = 2, .K = 20, .V = 12, .initial_state = false};
  turned.options.state_v_first = true;
  expect_reference<Args>(turned, "states of [V, K]");
  turned.initial_state = true;
  turned.options.scale = 0.3f;
  expect_reference<Args>(turned, "states of [V, K] from a state");
  turned.options.output_final_state = false;
  expect_reference<Args>(turned, "no gradient of a state");
  for (const fla::cases::DataKind data : fla::cases::kAllDataKinds) {
    expect_reference<Args>({.T = 130, .H = 1, .K = 32, .V = 16, .data = data},
                           std::string(fla::cases::name_of(data)));
  }
  expect_reference<Args>({.T = 40,
                          .H = 2,
                          .HV = 4,
                          .K = 16,
                          .V = 16,
                          .dtype = DType::bf16,
                          .gate_dtype = DType::bf16,
                          .fused_projection = true},
                         "bf16 in one row a token");
  expect_reference<Args>({.T = 40, .H = 2, .K = 1, .V = 1, .dtype = DType::f16}, "f16 and one channel");
  Spec options{.T = 40, .H = 1, .HV = 2, .K = 24, .V = 16};
  if constexpr (requires { options.options.use_qk_l2norm_in_kernel; }) {
    options.options.use_qk_l2norm_in_kernel = true;
    expect_reference<Args>(options, "norm");
  }
  if constexpr (requires { options.options.use_gate_in_kernel; }) {
    options.options.use_gate_in_kernel = options.options.use_beta_sigmoid_in_kernel = true;
    expect_reference<Args>(options, "gate and sigmoid");
    options.options.allow_neg_eigval = true;
    options.options.lower_bound = -5.0f;
    expect_reference<Args>(options, "bounded gate and doubled sigmoid");
  }
  if constexpr (requires { options.options.normalize; }) {
    options.options.normalize = true;
    options.T = 300;
    expect_reference<Args>(options, "normalized");
  }
  if constexpr (requires { options.options.g_gamma; }) {
    options.head_gates = true;
    expect_reference<Args>(options, "a gate a head");
  }
}

template <class Args>
void expect_any_gate() {
  if constexpr (requires(Args args) { args.g; }) {
    for (const auto& [name, gate] : fla_test::kFamilyGates) {
      BackwardCase<Args> made({.T = 60, .H = 1, .K = 16, .V = 16});
      fla::cases::Random random(13);
      const Tensor g = Tensor::empty(BackwardCase<Args>::shape_of(made.args.g), DType::f32);
      for (std::int64_t i = 0; i < g.numel(); ++i) g.as<float>()[i] = gate(random);
      made.args.g = g;
      const auto reference = all_of(fla::cases::gradient_reference_of(made.args));
      const Named gradients = all_of(kBackward<Args>(made.args));
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i].second.defined()) continue;
        EXPECT_LE(error_of(gradients[i].second, reference[i].second),
                  fla::cases::gradient_tolerance(DType::f32))
            << Args::kOp.name << ", " << name << ", " << gradients[i].first;
      }
    }
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

/// Rows of a token, from one sequence's first on.
bool same_tokens(const Tensor& alone, const Tensor& packed, std::int64_t begin) {
  if (!alone.defined()) return true;
  const std::int64_t row = alone.numel() / alone.size(1);
  return std::memcmp(alone.data(), packed.as<float>() + begin * row,
                     static_cast<std::size_t>(alone.numel()) * sizeof(float)) == 0;
}

template <class Args>
void expect_same_bits() {
  const BackwardCase<Args> made({.H = 1, .HV = 2, .K = 12, .V = 20, .lengths = {21, 0, 40}});
  const Named once = all_of(kBackward<Args>(made.args)), again = all_of(kBackward<Args>(made.args));
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (!once[i].second.defined()) continue;
    EXPECT_TRUE(same_bits(once[i].second, again[i].second)) << Args::kOp.name << ", " << once[i].first;
  }
  // The third sequence alone.
  typename Args::Backward alone = made.args;
  for (const fla::Argument& argument : Args::Backward::arguments()) {
    if (!argument.is_tensor() || !argument.tensor(&alone).defined()) continue;
    TensorView& tensor = argument.tensor(&alone);
    if (argument.shape.text.starts_with("B T")) tensor = tensor.slice(1, 21, 40);
    if (argument.shape.text.starts_with("P")) tensor = tensor.slice(0, 2, 1);
  }
  alone.cu_seqlens = {};
  const fla::RecurrenceGradients packed = kBackward<Args>(made.args), single = kBackward<Args>(alone);
  EXPECT_TRUE(same_tokens(single.dq, packed.dq, 21)) << Args::kOp.name;
  EXPECT_TRUE(same_tokens(single.dk, packed.dk, 21)) << Args::kOp.name;
  EXPECT_TRUE(same_tokens(single.dv, packed.dv, 21)) << Args::kOp.name;
  EXPECT_TRUE(same_tokens(single.dg, packed.dg, 21)) << Args::kOp.name;
  EXPECT_TRUE(same_tokens(single.dbeta, packed.dbeta, 21)) << Args::kOp.name;
}

/// Gradients that come in are often tiny.
template <class Args>
void expect_powers_of_two_to_come_through() {
  const BackwardCase<Args> made({.T = 40, .H = 1, .HV = 2, .K = 12, .V = 20});
  const Named plain = all_of(kBackward<Args>(made.args));
  for (const int power : {-60, 60}) {
    for (const Tensor& tensor : {made.upstream, made.of_state}) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        tensor.as<float>()[i] = std::ldexp(tensor.as<float>()[i], power);
    }
    const Named scaled = all_of(kBackward<Args>(made.args));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto& [name, gradient] = plain[i];
      for (std::int64_t j = 0; j < gradient.numel(); ++j) {
        ASSERT_EQ(std::ldexp(gradient.as<float>()[j], power), scaled[i].second.template as<float>()[j])
            << Args::kOp.name << ", 2^" << power << ", " << name << " at " << j;
      }
    }
    for (const Tensor& tensor : {made.upstream, made.of_state}) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        tensor.as<float>()[i] = std::ldexp(tensor.as<float>()[i], -power);
    }
  }
}

template <class Args>
void expect_only_what_is_given() {
  BackwardCase<Args> made({.T = 40, .H = 1, .HV = 2, .K = 12, .V = 20});
  const fla::RecurrenceGradients all = kBackward<Args>(made.args);
  const Tensor dk = filled(BackwardCase<Args>::shape_of(made.args.k), DType::f32, 1, 7, 8);
  made.args.dk = dk;
  for (const auto& [name, gradient] : all_of(kBackward<Args>(made.args))) {
    EXPECT_EQ(gradient.defined(), name == "dk") << Args::kOp.name << ", " << name;
    EXPECT_EQ(gradient.data(), name == "dk" ? dk.data() : nullptr);
  }
  EXPECT_TRUE(same_bits(dk, all.dk)) << Args::kOp.name;
}

#define FLA_OP(NAME, ARGS)                                                                                \
  TEST(Backward, NAME##_agrees_with_the_reference) { expect_all<fla::ARGS>(); }                           \
  TEST(Backward, NAME##_takes_any_gate) { expect_any_gate<fla::ARGS>(); }                                 \
  TEST(Backward, NAME##_has_the_same_bits_twice_and_alone) { expect_same_bits<fla::ARGS>(); }             \
  TEST(Backward, NAME##_scales_with_powers_of_two) { expect_powers_of_two_to_come_through<fla::ARGS>(); } \
  TEST(Backward, NAME##_computes_what_is_given) { expect_only_what_is_given<fla::ARGS>(); }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

TEST(Backward, IsAFunctionOfItsOp) {
  const BackwardCase<fla::KdaArgs> made({.T = 8, .H = 1, .K = 8, .V = 8});
  const fla::Explanation explanation = fla::explain("kda", "chunk_kda_backward", made.args);
  EXPECT_EQ(explanation.selected, "original");
  const fla::RecurrenceGradients by_name = fla::call("kda.chunk_kda_backward", made.args);
  EXPECT_TRUE(same_bits(by_name.dq, fla::chunk_kda_backward(made.args).dq));
  const auto plan = fla::plan("kda", "chunk_kda_backward", made.args);
  EXPECT_EQ(plan.backend(), "original");
  EXPECT_TRUE(same_bits(plan(made.args).dq, by_name.dq));
  EXPECT_EQ(fla::workspace_size(made.args), 0u);
}

TEST(Backward, RefusesBadInputByItsName) {
  fla::cases::KdaSpec spec{.T = 8, .H = 1, .HV = 2, .K = 8, .V = 4};
  spec.options.use_gate_in_kernel = true;
  const BackwardCase<fla::KdaArgs> made(spec);
  const auto refused = [&](auto change) -> std::string {
    fla::KdaBackwardArgs args = made.args;
    change(args);
    try {
      fla::chunk_kda_backward(args);
    } catch (const fla::InvalidArgument& error) {
      return error.what();
    }
    return "took it";
  };
  const Tensor keys = Tensor::zeros({1, 8, 1, 8}, DType::f32),
               half = Tensor::zeros({1, 8, 1, 8}, DType::bf16), heads = Tensor::zeros({2}, DType::f32),
               bias = Tensor::zeros({2, 8}, DType::f32);
  using Args = fla::KdaBackwardArgs;
  EXPECT_EQ(refused([](Args& args) { args.do_ = {}; }),
            "do: expected a tensor of shape [B=1, T=8, HV=2, V=4], got none");
  EXPECT_EQ(refused([&](Args& args) { args.do_ = keys; }),
            "do: expected shape [B=1, T=8, HV=2, V=4], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.dht = keys; }),
            "dht: expected shape [N=1, HV=2, K=8, V=4], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.dq = half; }), "dq: expected dtype f32 like q, got bf16");
  EXPECT_EQ(refused([&](Args& args) { args.dq = args.q; }),
            "dq: expected memory of its own, got some that overlaps q");
  EXPECT_EQ(refused([&](Args& args) { args.dv = keys; }),
            "dv: expected shape [B=1, T=8, HV=2, V=4], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.dq = args.dk = keys; }),
            "dk: expected memory of its own, got some that overlaps dq");
  EXPECT_EQ(refused([&](Args& args) {
              args.A_log = {};
              args.lower_bound = -5.0f;
              args.dA_log = heads;
            }),
            "A_log: expected a tensor of shape [HV=2] with dA_log, got none");
  EXPECT_EQ(refused([&](Args& args) {
              if (args.dt_bias.rank() == 1) args.ddt_bias = bias;
            }),
            "ddt_bias: expected shape [16] like dt_bias, got [2, 8]");
  EXPECT_EQ(refused([](Args& args) { args.scale = INFINITY; }), "scale: expected a finite number, got inf");
  EXPECT_EQ(refused([](Args& args) { args.q = {}; }), "q: expected a tensor of shape [B, T, H, K], got none");
}

}  // namespace
