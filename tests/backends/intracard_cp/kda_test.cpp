#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/ops.h"
#include "tests/backends/intracard_cp/intracard_cp_test.h"
#include "tests/backends/intracard_cp/refusals.h"
#include "tests/backends/wanted_workspace.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

/// intracard_cp as a backend: what it takes, what turns it off, what it is given to work in.
namespace {

using fla::BackendError;
using fla::KdaArgs;
using fla_test::error_text;
using fla_test::InParts;
using fla_test::kGpu;
using fla_test::LongCall;
using fla_test::ReloadedEnvironment;

class IntracardCp : public fla_test::IntracardCpTest {
 protected:
  static int multiprocessors() { return fla::find_cuda_device(kGpu)->multiprocessors; }
};

TEST_F(IntracardCp, IsAskedBetweenFlashKdaAndTileLang) {
  LongCall call;
  EXPECT_EQ(fla::explain("kda", "chunk_kda", call.args).selected, "intracard_cp");
  EXPECT_EQ(InParts::row_of(call.args).priority, 4);
  call.resize(1, 32768, 2, 128, 256);  // 16 blocks of values
  const std::int64_t parts = 2 * multiprocessors() / 16;
  EXPECT_EQ(InParts::row_of(call.args).route, "up to " + std::to_string(parts) + " parts a sequence");
}

TEST_F(IntracardCp, RefusesWithItsReasonThroughThePublicFunction) {
  const fla::ScopedPolicy required({.require = {{"kda", "intracard_cp"}}});
  for (const fla_test::Refusal& refusal : fla_test::refusals_of_long_calls(multiprocessors())) {
    LongCall call;
    refusal.spoil(call);
    const fla::Explanation::Row row = InParts::row_of(call.args);
    EXPECT_EQ(row.state, "refused") << refusal.name;
    EXPECT_EQ(row.reason, refusal.reason) << refusal.name;
    EXPECT_EQ(row.route, "") << refusal.name;
    EXPECT_EQ(error_text<BackendError>([&] { fla::chunk_kda(call.args); }),
              "kda.chunk_kda: backend intracard_cp is required and refused: " + refusal.reason)
        << refusal.name;
  }
}

TEST_F(IntracardCp, RefusesWhatOtherOpsHave) {
  const fla::ScopedPolicy required(
      {.require = {{"linear_attn", "intracard_cp"}, {"dplr_delta_rule", "intracard_cp"}}});
  const std::string refused = ": backend intracard_cp is required and refused: ";
  EXPECT_EQ(error_text<BackendError>([] { fla::chunk_linear_attn(fla_test::NormalizedCall().args); }),
            "linear_attn.chunk_linear_attn" + refused + fla_test::NormalizedCall::kReason);
  for (const auto& [name, member] :
       {std::pair{"a", &fla::DplrDeltaRuleArgs::a}, {"b", &fla::DplrDeltaRuleArgs::b}}) {
    const fla_test::PairCall call(member);
    EXPECT_EQ(error_text<BackendError>([&] { fla::chunk_dplr_delta_rule(call.args); }),
              "dplr_delta_rule.chunk_dplr_delta_rule" + refused + fla_test::PairCall::reason(name));
  }
}

TEST_F(IntracardCp, RefusesAGpuThatIsNotThere) {
  LongCall call;
  call.put_on({fla::DeviceType::cuda, 99});
  EXPECT_EQ(InParts::row_of(call.args).reason, "requires a GPU that is there, got cuda:99");
}

TEST_F(IntracardCp, TakesEverythingElse) {
  for (const fla_test::Acceptance& acceptance : fla_test::long_calls()) {
    LongCall call;
    acceptance.change(call);
    EXPECT_EQ(InParts::row_of(call.args).state, "selected") << acceptance.name;
  }
}

TEST_F(IntracardCp, HasNoFusedRecurrentKda) {
  EXPECT_EQ(InParts::row_of(LongCall().args, "fused_recurrent_kda").state, "not_implemented");
}

TEST_F(IntracardCp, IsTurnedOffByItsVariable) {
  const LongCall call;
  const ReloadedEnvironment off({{"FLA_INTRACARD_CP", "0"}});
  EXPECT_EQ(InParts::row_of(call.args).state, "disabled");
  EXPECT_EQ(InParts::row_of(call.args).reason, "FLA_INTRACARD_CP=0");
}

/// Where a sequence is cut depends on its length, so that it has other bits in pieces.
TEST_F(IntracardCp, IsNotAskedForBitsThatDoNotDependOnCuts) {
  const LongCall call;
  const fla::ScopedPolicy invariant({.batch_invariant = true});
  EXPECT_NE(InParts::row_of(call.args).state, "selected");
  EXPECT_NE(InParts::row_of(call.args).reason, "");
}

TEST_F(IntracardCp, RefusesAWorkspaceThatDoesNotDo) {
  LongCall call;
  fla_test::expect_workspaces_judged(call, [](const KdaArgs& args) { return InParts::row_of(args); });
}

}  // namespace
