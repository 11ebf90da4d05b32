#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/gpu/gpu_agreement.h"
#include "tests/ops/recurrence/family_inputs.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/device_call.h"

/// Every op of the family on the GPU, on the original kernels and on the backends that take a call.
namespace {

namespace cases = fla::cases;
using fla::DType;
using fla::Tensor;
using fla_test::FamilyInputs;
using fla_test::filled;
using fla_test::kGpu;

template <class Args>
using Function = fla::RecurrenceResult (*)(const Args&);

template <class Args>
struct Way {
  std::string_view name;
  Function<Args> run;
};

template <class Args>
void expect_reference(const Args& host, const std::vector<Way<Args>>& ways, const std::string& what) {
  using fla::conformance::DeviceIndices;
  const cases::Reference reference = cases::reference_of(host);
  for (const DeviceIndices indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
    for (const Way<Args>& way : ways) {
      const std::string who = std::string(Args::kOp.name) + " " + std::string(way.name) + ", " + what +
                              (indices == DeviceIndices::on_host ? ", indices on the host" : "");
      fla::conformance::DeviceCall call(host, kGpu, indices);
      const fla::RecurrenceResult result = call.bring_back(way.run(call.args()));
      EXPECT_EQ(call.damage(), "") << who;
      const cases::Errors errors = cases::errors_of(result, reference);
      const double bar = fla_test::bar_of_inputs(host.q.dtype());
      EXPECT_LE(errors.o, bar) << who;
      const bool rounded = result.final_state.defined() && result.final_state.dtype() == DType::bf16;
      EXPECT_LE(errors.final_state, rounded ? 4e-3 : std::min(bar, 1e-3)) << who;
    }
  }
}

class Family : public fla_test::GpuTest {};

template <class Args>
void expect_prefill(const std::vector<Way<Args>>& ways) {
  const std::array<DType, 3> dtypes{DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  for (const std::int64_t K : {12, 50, 96, 128, 200}) {
    const FamilyInputs inputs{{.T = 120, .K = K, .V = K == 96 ? 192 : 20, .dtype = dtypes[turn++ % 3]}};
    Args args = inputs.call<Args>();
    const auto expect = [&](const std::string& what) {
      expect_reference(args, ways, what + ", K=" + std::to_string(K));
    };
    expect("packed");
    args.scale = 0.7f;
    if constexpr (requires { args.use_qk_l2norm_in_kernel; }) args.use_qk_l2norm_in_kernel = true;
    expect("scaled, normalised where that is");
    if constexpr (requires { args.g_gamma; }) {
      Args by_head = args;
      by_head.g = {}, by_head.g_gamma = inputs.gamma;
      expect_reference(by_head, ways, "a gate a head");
    }
    if constexpr (requires { args.use_gate_in_kernel; }) {
      const Tensor A_log = filled({inputs.of.HV}, DType::f32, 21, -1, 1);
      Args gated = args;
      gated.use_gate_in_kernel = gated.use_beta_sigmoid_in_kernel = gated.allow_neg_eigval = true;
      gated.A_log = A_log;
      const std::int64_t channels = Args::kOp.gate == fla::GateKind::channel ? K : 1;
      const Tensor bias = filled({inputs.of.HV * channels}, DType::f32, 22, -1, 1);
      gated.dt_bias = bias;
      expect_reference(gated, ways, "a gate in the kernel");
      gated.lower_bound = -4.0f;
      expect_reference(gated, ways, "a bounded gate in the kernel");
    }
    if constexpr (requires { args.normalize; }) {
      const Tensor q = inputs.keys(11, 0, 1), k = inputs.keys(12, 0, 1);
      Args normalized = args;
      normalized.q = q, normalized.k = k, normalized.normalize = true;
      expect_reference(normalized, ways, "normalized, K=" + std::to_string(K));
    }
    args.state_indices = {inputs.reads.data(), DType::i64, {3}};
    args.state_write_indices = {inputs.writes.data(), DType::i64, {3}};
    args.initial_state = inputs.pool;
    const auto& [B, T, H, HV, of_K, V, P, dtype, state] = inputs.of;
    const Tensor written = Tensor::zeros({P, HV, K, V}, DType::f32);
    args.final_state = written;
    expect("in a pool");
  }
}

template <class Args>
void expect_any_gate(const std::vector<Way<Args>>& ways) {
  if constexpr (requires(Args args) { args.g; }) {
    for (const std::int64_t K : {64, 256}) {
      FamilyInputs inputs{{.T = 150, .K = K}};
      for (const auto& [name, gate] : fla_test::kFamilyGates) {
        cases::Random random(13);
        for (const Tensor& tensor : {inputs.gates, inputs.scalars}) {
          for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.as<float>()[i] = gate(random);
        }
        Args args = inputs.call<Args>();
        const std::vector<std::int64_t> starts{0, 20, 20, 150};  // 1.2^130 is still a float
        if (std::string_view(name) == "growing") args.cu_seqlens = {starts.data(), DType::i64, {4}};
        expect_reference(args, ways, name);
      }
    }
  }
}

/// A NaN in v at a token is in its column of the outputs from there on, and nowhere before.
template <class Args>
void expect_causal(const std::vector<Way<Args>>& ways) {
  const FamilyInputs inputs;
  const std::int64_t token = 7, head = 1, column = 3, HV = inputs.of.HV, V = inputs.of.V;
  inputs.v.as<float>()[(token * HV + head) * V + column] = NAN;
  for (const Way<Args>& way : ways) {
    fla::conformance::DeviceCall call(inputs.call<Args>(), kGpu);
    const fla::RecurrenceResult result = call.bring_back(way.run(call.args()));
    std::string wrong;
    for (std::int64_t t = 0; t < inputs.of.T; ++t) {
      for (std::int64_t i = 0; i < HV * V; ++i) {
        const bool spoilt = i == head * V + column && t >= token && t < 19;
        if (std::isnan(result.o.as<float>()[t * HV * V + i]) != spoilt)
          wrong += std::to_string(t) + ":" + std::to_string(i) + " ";
      }
    }
    EXPECT_EQ(wrong, "") << Args::kOp.name << " " << way.name;
  }
}

/// One token a sequence, as a server decodes: cuda_decode takes it.
template <class Args>
void expect_decode(const std::vector<Way<Args>>& ways) {
  std::size_t turn = 0;
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const bool v_first : {false, true}) {
      for (const DType dtype : {DType::bf16, DType::f32}) {
        const std::int64_t K = turn++ % 2 == 0 ? 128 : 64, V = turn % 4 == 0 ? 64 : 128, HV = 4, P = 6;
        const FamilyInputs inputs{{.B = 3, .T = 1, .K = K, .V = V, .P = P, .dtype = dtype, .state = state}};
        Args args = inputs.call<Args>();
        const Tensor pool =
            filled(v_first ? std::vector<std::int64_t>{P, HV, V, K} : std::vector<std::int64_t>{P, HV, K, V},
                   state, 10, -1, 1);
        const Tensor written = Tensor::zeros(pool.view().shape(), state);
        args.state_v_first = v_first;
        args.state_indices = {inputs.reads.data(), DType::i64, {3}};
        args.state_write_indices = {inputs.writes.data(), DType::i64, {3}};
        args.initial_state = pool, args.final_state = written;
        if constexpr (requires { args.use_qk_l2norm_in_kernel; })
          args.use_qk_l2norm_in_kernel = turn % 3 == 0;
        const std::string what = std::string(name_of(state)) + (v_first ? " [V, K]" : " [K, V]");
        EXPECT_EQ(
            fla::explain(Args::kOp.name, Args::kOp.recurrent, fla::conformance::DeviceCall(args, kGpu).args())
                .selected,
            "cuda_decode")
            << Args::kOp.name << " " << what;
        expect_reference(args, ways, "decoding, " + what);
        if constexpr (requires { args.g_gamma; }) {
          args.g = {}, args.g_gamma = inputs.gamma;
          expect_reference(args, ways, "decoding, a gate a head, " + what);
        }
        if constexpr (requires { args.normalize; }) {
          // The state is not divided by the keys before: of this call's key alone.
          const Tensor q = inputs.keys(11, 0.1f, 1), k = inputs.keys(12, 0.1f, 1);
          args.q = q, args.k = k, args.normalize = true;
          expect_reference(args, ways, "decoding, normalized, " + what);
        }
      }
    }
  }
}

#define FLA_OP(NAME, ARGS)                                                   \
  const std::vector<Way<fla::ARGS>> kWays_##NAME{                            \
      {"front door", &fla::NAME},                                            \
      {"chunk", &fla::chunk_##NAME},                                         \
      {"fused_recurrent", &fla::fused_recurrent_##NAME},                     \
      {"original chunk", &fla::original::chunk_##NAME},                      \
      {"original fused_recurrent", &fla::original::fused_recurrent_##NAME}}; \
  TEST_F(Family, NAME##_prefills) { expect_prefill(kWays_##NAME); }          \
  TEST_F(Family, NAME##_takes_any_gate) { expect_any_gate(kWays_##NAME); }   \
  TEST_F(Family, NAME##_is_causal) { expect_causal(kWays_##NAME); }          \
  TEST_F(Family, NAME##_decodes) { expect_decode(kWays_##NAME); }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// Every golden file with every function of its op, on the original kernel and on every backend that takes
/// it.
class GoldenOnGpu : public fla_test::OnGpu<testing::TestWithParam<std::string>> {};

TEST_P(GoldenOnGpu, Agrees) {
  const cases::Case golden = cases::read_case(GetParam(), "", kGpu);
  const cases::Op& op = *golden.op;
  const double tolerance =
      cases::tolerance(op.arguments.front().tensor(static_cast<const void*>(golden.args.get())).dtype());
  for (const std::string_view function : op.functions) {
    std::vector<std::string> backends{"original"};
    for (const fla::Explanation::Row& row : op.explain(function, golden.args.get()).rows) {
      if (row.state == "selected" || row.state == "accepted") backends.push_back(row.name);
    }
    for (const std::string& backend : backends) {
      const fla::ScopedPolicy scope(fla::policy_for(op.name, backend));
      const std::vector<cases::NamedTensor> results = cases::run(golden, function);
      ASSERT_EQ(results.size(), golden.expected.size());
      for (const cases::NamedTensor& expected : golden.expected) {
        const auto result = std::ranges::find(results, expected.name, &cases::NamedTensor::name);
        ASSERT_NE(result, results.end()) << expected.name;
        EXPECT_LE(cases::relative_error(fla::copy_to(result->tensor, {}), expected.tensor), tolerance)
            << function << " on " << backend << ": " << expected.name;
      }
    }
  }
}

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR))
    files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenOnGpu, testing::ValuesIn(golden_files()),
                         [](const auto& test) { return std::filesystem::path(test.param).stem().string(); });

/// More tokens than are worked on at a time, whose states are kept and taken up again.
template <class Args>
void expect_long_gradients(fla::RecurrenceGradients (*run)(const typename Args::Backward&)) {
  cases::CaseSpec<Args> spec{.H = 8, .HV = 16, .K = 32, .V = 24, .lengths = {9000, 0, 1, 4000}};
  spec.data = cases::DataKind::slow;
  const cases::BackwardCase<Args> made(spec);
  const auto here = cases::named_gradients(cases::Functions<Args>::original_backward(made.args));
  fla::conformance::DeviceCall<typename Args::Backward> call(made.args, kGpu);
  const auto there = cases::named_gradients(call.bring_back(run(call.args())));
  EXPECT_EQ(call.damage(), "") << Args::kOp.name;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!here[i].second.defined()) continue;
    EXPECT_LE(cases::relative_error(there[i].second, here[i].second), 1e-4)
        << Args::kOp.name << " " << here[i].first;
  }
}

TEST_F(Family, GradientsOfLongSequences) {
  expect_long_gradients<fla::KdaArgs>(&fla::original::chunk_kda_backward);
  expect_long_gradients<fla::SimpleGlaArgs>(&fla::original::chunk_simple_gla_backward);
  expect_long_gradients<fla::DplrDeltaRuleArgs>(&fla::original::chunk_dplr_delta_rule_backward);
}

}  // namespace
