#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/ops/recurrence/gradient_checks.h"

/// The original kernels' gradients.
namespace {

using fla::DType;
using fla::Tensor;
using fla::cases::BackwardCase;
using fla_test::same_bits;

template <class Args>
constexpr auto kBackward = fla::cases::Functions<Args>::original_backward;

#define FLA_OP(NAME, ARGS)                                 \
  TEST(Backward, NAME##_agrees_with_the_reference) {       \
    fla_test::expect_all<fla::ARGS>(kBackward<fla::ARGS>); \
  }                                                        \
  TEST(Backward, NAME##_takes_any_gate) { fla_test::expect_any_gate<fla::ARGS>(kBackward<fla::ARGS>); }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

template <class Args>
void expect_state_alone_has_the_same_bits() {
  for (const std::int64_t HV : {1, 2}) {
    const BackwardCase<Args> made({.H = 1, .HV = HV, .K = 12, .V = 20, .lengths = {19, 0, 290, 1}});
    const Tensor all = kBackward<Args>(made.args).dinitial_state,
                 alone = Tensor::zeros(all.shape(), DType::f32);
    auto args = made.args;
    args.dinitial_state = alone;
    EXPECT_FALSE(kBackward<Args>(args).dq.defined());
    EXPECT_TRUE(same_bits(alone, all)) << Args::kOp.name;
  }
}

#define FLA_OP(NAME, ARGS)                                      \
  TEST(Backward, NAME##_of_the_state_alone_has_the_same_bits) { \
    expect_state_alone_has_the_same_bits<fla::ARGS>();          \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

TEST(Backward, IsAFunctionOfItsOp) {
  const BackwardCase<fla::KdaArgs> made({.T = 8, .H = 1, .K = 8, .V = 8});
  const fla::Explanation explanation = fla::explain("kda", "chunk_kda_backward", made.args);
  const fla::RecurrenceGradients by_name = fla::call("kda.chunk_kda_backward", made.args);
  EXPECT_TRUE(same_bits(by_name.dq, fla::chunk_kda_backward(made.args).dq));
  const auto plan = fla::plan("kda", "chunk_kda_backward", made.args);
  EXPECT_EQ(plan.backend(), explanation.selected);
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
      EXPECT_EQ(error.op(), "kda");
      return error.problem().empty() ? "" : error.argument() + ": " + error.problem();
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
