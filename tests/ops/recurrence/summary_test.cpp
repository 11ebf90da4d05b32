#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fla/core/copy_arguments.h"
#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/core/error_text.h"
#include "tests/ops/recurrence/summary_checks.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"

/// What tokens do to a state, of every op of the family, on the original kernels.
namespace {

using fla::DType;
using fla::RecurrenceSummary;
using fla::Tensor;
using fla::TensorView;
using fla::cases::BackwardCase;
using fla::cases::CaseSpec;
using fla::cases::relative_error;

template <class Args>
struct Summaries {
  using Functions = fla::cases::Functions<Args>;
  using Summary = typename Args::Summary;
  static constexpr bool kDiagonal = Args::kOp.rule == fla::Rule::additive;

  static void expect_all() {
    for (const auto run : {Functions::summary, Functions::original_summary})
      fla_test::expect_summaries<Args>(run);
  }

  /// The tokens [begin, end) of a call's inputs.
  template <class Call>
  static Call part_of(const Call& args, std::int64_t begin, std::int64_t end) {
    Call part = args;
    for (const fla::Argument& argument : Call::arguments()) {
      if (!argument.is_tensor() || !argument.tensor(&part).defined()) continue;
      TensorView& tensor = argument.tensor(&part);
      if (tensor.rank() >= 3 && argument.shape.first.dims[1].axis == fla::Axis::T)
        tensor = tensor.slice(1, begin, end - begin);
    }
    return part;
  }

  /// A call cut in three, the parts of which get their states from summaries, and one that is not cut.
  static void expect_cut() {
    SCOPED_TRACE(Args::kOp.name);
    const BackwardCase<Args> made(
        {.T = 96, .H = 1, .HV = 2, .K = 16, .V = 12, .data = fla::cases::DataKind::slow});
    const Args& whole = made.forward.args;
    const std::vector<std::int64_t> cuts{0, 41, 42, 96};
    const fla::RecurrenceResult expected = Functions::original_chunk(whole);
    const fla::RecurrenceGradients gradients = Functions::original_backward(made.args);

    std::vector<RecurrenceSummary> ahead, back;
    std::vector<Tensor> states{Tensor::over(whole.initial_state)}, upstream{Tensor::over(made.args.dht)};
    const auto merged = [](const RecurrenceSummary& summary, const Tensor& state) {
      const auto one = [](const TensorView& x) {
        std::vector<std::int64_t> shape{1};
        shape.insert(shape.end(), x.shape().begin(), x.shape().end());
        return TensorView(x.data(), DType::f32, shape);
      };
      return fla::merge({.R = one(summary.R), .P = one(summary.P), .initial_state = state}).final_state;
    };
    for (std::size_t i = 0; i < 3; ++i) {
      Summary args = fla::arguments_like<Summary>(part_of(whole, cuts[i], cuts[i + 1]));
      args.initial_state = {}, args.output_P = true;
      states.push_back(merged(Functions::original_summary(args), states.back()));
      args = fla::arguments_like<Summary>(part_of(made.args, cuts[2 - i], cuts[3 - i]));
      args.initial_state = args.dht = {}, args.output_P = true;
      upstream.push_back(merged(Functions::original_summary(args), upstream.back()));
    }
    EXPECT_LE(relative_error(states[3], expected.final_state), 2e-6);
    EXPECT_LE(relative_error(upstream[3], gradients.dinitial_state), 2e-6);
    for (std::size_t i = 0; i < 3; ++i) {
      Args part = part_of(whole, cuts[i], cuts[i + 1]);
      part.initial_state = states[i];
      const TensorView o = expected.o;
      EXPECT_LE(relative_error(Functions::original_chunk(part).o, o.slice(1, cuts[i], cuts[i + 1] - cuts[i])),
                2e-6);
      typename Args::Backward of_part = part_of(made.args, cuts[i], cuts[i + 1]);
      of_part.initial_state = states[i];
      of_part.dht = upstream[2 - i];
      const fla::RecurrenceGradients found = Functions::original_backward(of_part);
      const auto expect_part = [&](const Tensor& gradient, const TensorView& all) {
        EXPECT_LE(relative_error(gradient, all.slice(1, cuts[i], cuts[i + 1] - cuts[i])), 2e-6);
      };
      expect_part(found.dq, gradients.dq);
      expect_part(found.dk, gradients.dk);
      expect_part(found.dv, gradients.dv);
      if (found.dg.defined()) expect_part(found.dg, gradients.dg);
    }
  }

  static void expect_no_tokens_change_nothing() {
    SCOPED_TRACE(Args::kOp.name);
    const CaseSpec<Args> spec{.H = 1, .HV = 2, .K = 5, .V = 3, .lengths = {0, 0}};
    const BackwardCase<Args> made(spec);
    Summary args = fla::arguments_like<Summary>(made.args);
    args.output_P = true;
    args.initial_state = args.dht = {};
    for (const bool reverse : {false, true}) {
      if (!reverse) args.do_ = {};
      const RecurrenceSummary none = Functions::original_summary(args);
      EXPECT_EQ(relative_error(none.R, std::vector<double>(2 * 2 * 5 * 3)), 0);
      for (std::int64_t i = 0; i < none.P.numel(); ++i) {
        EXPECT_EQ(none.P.template as<float>()[i], kDiagonal || i % 25 / 5 == i % 5 ? 1 : 0);
      }
      args = fla::arguments_like<Summary>(made.args), args.output_P = true;
      args.initial_state = args.dht = {};
    }
  }
};

#define FLA_OP(NAME, ARGS)                                                                \
  TEST(Summary, NAME##_agrees_with_the_reference) { Summaries<fla::ARGS>::expect_all(); } \
  TEST(Summary, NAME##_in_parts_is_the_whole) { Summaries<fla::ARGS>::expect_cut(); }     \
  TEST(Summary, NAME##_of_no_tokens_is_the_identity) {                                    \
    Summaries<fla::ARGS>::expect_no_tokens_change_nothing();                              \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// A call of kda_summary.
struct KdaSummary {
  BackwardCase<fla::KdaArgs> made{CaseSpec<fla::KdaArgs>{.T = 8, .H = 1, .HV = 2, .K = 8, .V = 4}};
  fla::KdaSummaryArgs args = fla::arguments_like<fla::KdaSummaryArgs>(made.args);
};

TEST(Summary, ASequenceAloneAndInABatchHaveTheSameBits) {
  const BackwardCase<fla::KdaArgs> made({.H = 1, .HV = 2, .K = 12, .V = 20, .lengths = {19, 70, 40}});
  auto args = fla::arguments_like<fla::KdaSummaryArgs>(made.args);
  args.initial_state = args.dht = args.do_ = {};
  args.output_P = true;
  const RecurrenceSummary all = fla::kda_summary(args);
  auto one = Summaries<fla::KdaArgs>::part_of(args, 19, 89);
  one.cu_seqlens = {};
  const RecurrenceSummary alone = fla::kda_summary(one);
  const auto same = [](const Tensor& x, const Tensor& in) {
    const std::size_t bytes = static_cast<std::size_t>(x.numel()) * 4;
    return std::memcmp(x.data(), in.as<char>() + bytes, bytes) == 0;
  };
  EXPECT_TRUE(same(alone.R, all.R));
  EXPECT_TRUE(same(alone.P, all.P));
}

TEST(Summary, HasPWhereItIsAskedForOrGivenMemory) {
  KdaSummary call;
  EXPECT_FALSE(fla::kda_summary(call.args).P.defined());
  const Tensor P = Tensor::zeros({1, 2, 8, 8}, DType::f32), R = Tensor::zeros({1, 2, 8, 4}, DType::f32);
  call.args.P = P, call.args.R = R;
  const RecurrenceSummary summary = fla::kda_summary(call.args);
  EXPECT_EQ(summary.P.data(), P.data());
  EXPECT_EQ(summary.R.data(), R.data());
  call.args.P = {}, call.args.output_P = true;
  EXPECT_EQ(relative_error(fla::kda_summary(call.args).P, P), 0);
}

TEST(Summary, OfGradientsHasTheTransposedP) {
  KdaSummary call;
  const Tensor there = Tensor::zeros({1, 2, 8, 8}, DType::f32),
               back = Tensor::zeros({1, 2, 8, 8}, DType::f32);
  call.args.P = back;
  (void)fla::kda_summary(call.args);
  call.args.do_ = call.args.dht = {};
  call.args.P = TensorView(there.data(), DType::f32, {1, 2, 8, 8}, {128, 64, 1, 8});
  (void)fla::kda_summary(call.args);
  EXPECT_EQ(relative_error(there, back), 0);
}

TEST(Summary, RefusesBadInputByItsName) {
  const KdaSummary call;
  const auto refused = [&](auto change) {
    fla::KdaSummaryArgs args = call.args;
    change(args);
    const auto said = [&](auto* run) {
      return fla_test::error_text<fla::InvalidArgument>([&] { (void)run(args); });
    };
    EXPECT_EQ(said(&fla::kda_summary), said(&fla::original::kda_summary));
    return said(&fla::kda_summary);
  };
  using Args = fla::KdaSummaryArgs;
  const Tensor keys = Tensor::zeros({1, 8, 1, 8}, DType::f32),
               half = Tensor::zeros({1, 2, 8, 4}, DType::bf16);
  EXPECT_EQ(refused([](Args& args) { args.q = {}; }),
            "kda: q: expected a tensor of shape [B, T, H, K], got none");
  EXPECT_EQ(refused([](Args& args) { args.do_ = {}; }),
            "kda: do: expected a tensor of the shape of v with dht, got none");
  EXPECT_EQ(refused([&](Args& args) { args.do_ = keys; }),
            "kda: do: expected shape [B=1, T=8, HV=2, V=4], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.R = keys; }),
            "kda: R: expected shape [N=1, HV=2, K=8, V=4], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.R = half; }), "kda: R: expected dtype f32, got bf16");
  EXPECT_EQ(refused([&](Args& args) { args.P = keys; }),
            "kda: P: expected shape [N=1, HV=2, K=8, K=8], got [1, 8, 1, 8]");
  EXPECT_EQ(refused([&](Args& args) { args.R = args.initial_state; }),
            "kda: R: expected memory of its own, got some that overlaps initial_state");
  const BackwardCase<fla::LinearAttnArgs> linear({.T = 8, .H = 1, .K = 8, .V = 4});
  auto args = fla::arguments_like<fla::LinearAttnSummaryArgs>(linear.args);
  args.normalize = true;
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { (void)fla::linear_attn_summary(args); }),
            "linear_attn: normalize: expected false: its sums go beyond the state, got true");
}

class SevenSummary final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven_summary"}; }
  fla::Verdict kda_summary_verifier(const fla::KdaSummaryArgs& args) const override {
    return args.do_.defined() ? fla::refuse("expected no gradients") : fla::accept();
  }
  RecurrenceSummary kda_summary(const fla::KdaSummaryArgs& args) override {
    RecurrenceSummary result = make_result(args);
    std::fill_n(result.R.as<float>(), result.R.numel(), 7.0f);
    return result;
  }
};

TEST(Summary, IsAFunctionOfItsOpThatBackendsTake) {
  KdaSummary call;
  const auto registered = fla::register_backend("kda", std::make_unique<SevenSummary>());
  const fla::Explanation explanation = fla::explain("kda", "kda_summary", call.args);
  const auto row = std::ranges::find(explanation.rows, "seven_summary", &fla::Explanation::Row::name);
  ASSERT_NE(row, explanation.rows.end());
  EXPECT_EQ(row->reason, "expected no gradients");
  EXPECT_NE(fla::kda_summary(call.args).R.as<float>()[0], 7);
  call.args.do_ = call.args.dht = {};
  EXPECT_EQ(fla::kda_summary(call.args).R.as<float>()[0], 7);
  EXPECT_NE(fla::original::kda_summary(call.args).R.as<float>()[0], 7);
  EXPECT_EQ(fla::workspace_size(call.args), 0u);
}

}  // namespace
