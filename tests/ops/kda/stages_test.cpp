#include "fla/ops/common/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/choice/function_backend.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/laid_out.h"

/// The stages of the original kernels: who takes them, and under whose settings.
namespace {

using fla::BackendError;
using fla::GateArgs;
using fla::KdaArgs;
using fla::KdaResult;
using fla::L2NormArgs;
using fla::register_backend;
using fla::SolveTrilArgs;
using fla::StageResult;
using fla::cases::KdaCase;
using fla::conformance::bytes_of;
using fla::conformance::same_bits;
namespace common = fla::common;

KdaCase fused_call(std::int64_t tokens = 70) {
  return fla::cases::make_kda_case({.B = 2,
                                    .T = tokens,
                                    .H = 2,
                                    .HV = 4,
                                    .K = 24,
                                    .V = 40,
                                    .options = {.output_final_state = true,
                                                .use_qk_l2norm_in_kernel = true,
                                                .use_gate_in_kernel = true,
                                                .use_beta_sigmoid_in_kernel = true}});
}

/// No backend of kda itself: the original kernels, whose stages are dispatched.
fla::Policy original_kernels(fla::Policy policy = {}) {
  policy.order["kda"] = {};
  return policy;
}

/// Backends of all three stages that count, and do what the stages' own kernels do.
struct CountingStages {
  std::atomic<int> norms{0}, gates{0}, solves{0};
  fla::RegisteredBackend norm =
      register_backend("common.l2_norm", {.name = "counting_norm"}, [this](const L2NormArgs& args) {
        ++norms;
        return common::original::l2_norm(args);
      });
  fla::RegisteredBackend gate =
      register_backend("common.gate", {.name = "counting_gate"}, [this](const GateArgs& args) {
        ++gates;
        return common::original::gate(args);
      });
  fla::RegisteredBackend solve =
      register_backend("common.solve_tril", {.name = "counting_solve"}, [this](const SolveTrilArgs& args) {
        ++solves;
        return common::original::solve_tril(args);
      });
  std::vector<int> taken() { return {norms.exchange(0), gates.exchange(0), solves.exchange(0)}; }
};

TEST(KdaStages, AreTakenOnceABlockOfTokensOfAHead) {
  const KdaCase call = fused_call();  // 2 sequences of 4 value heads; 70 tokens are two blocks
  const KdaResult alone = fla::original::chunk_kda(call.args),
                  stepped = fla::original::fused_recurrent_kda(call.args);
  CountingStages stages;
  const fla::ScopedPolicy policy(original_kernels());
  EXPECT_TRUE(same_bits(fla::chunk_kda(call.args), alone));
  EXPECT_EQ(stages.taken(), (std::vector<int>{2 * 4 * 2 * 2, 2 * 4 * 2, 2 * 4 * 2}));
  EXPECT_TRUE(same_bits(fla::fused_recurrent_kda(call.args), stepped));
  EXPECT_EQ(stages.taken(), (std::vector<int>{2 * 4 * 2 * 2, 2 * 4 * 2, 0}));
}

TEST(KdaStages, RunOnlyWhenTheOptionsAskForThem) {
  const KdaCase call = fla::cases::make_kda_case({.T = 20, .H = 1, .K = 8, .V = 8});
  CountingStages stages;
  const fla::ScopedPolicy policy(original_kernels());
  (void)fla::chunk_kda(call.args);
  EXPECT_EQ(stages.taken(), (std::vector<int>{0, 0, 1}));
  (void)fla::fused_recurrent_kda(call.args);
  EXPECT_EQ(stages.taken(), (std::vector<int>{0, 0, 0}));
}

TEST(KdaStages, OwnKernelRunsOnlyWhenNoBackendTakesIt) {
  const KdaCase call = fused_call();
  const auto blind = register_backend("common.l2_norm", {.name = "blind"}, [](const L2NormArgs& args) {
    StageResult result = make_result(args);  // rows of zeros: nothing is remembered, nothing comes out
    std::memset(result.out.data(), 0, static_cast<std::size_t>(result.out.numel()) * sizeof(float));
    return result;
  });
  const fla::ScopedPolicy policy(original_kernels());
  const KdaResult result = fla::chunk_kda(call.args);
  for (std::int64_t i = 0; i < result.o.numel(); ++i) ASSERT_EQ(result.o.as<float>()[i], 0);
}

TEST(KdaStages, ThatAreRefusedRunAsTheyAre) {
  const KdaCase call = fused_call();
  const KdaResult alone = fla::original::chunk_kda(call.args);
  std::atomic<int> asked{0}, ran{0};
  const auto refusing = register_backend(
      "common.l2_norm", {.name = "refusing"},
      [&asked](const L2NormArgs& args) {
        ++asked;
        return fla::refuse("requires K=128, got {}", args.x.size(3));
      },
      [&ran](const L2NormArgs& args) {
        ++ran;
        return common::original::l2_norm(args);
      });
  const fla::ScopedPolicy policy(original_kernels());
  EXPECT_TRUE(same_bits(fla::chunk_kda(call.args), alone));
  EXPECT_EQ(asked.load(), 2 * 4 * 2 * 2);
  EXPECT_EQ(ran.load(), 0);
}

TEST(KdaStages, AreNotAskedByOriginalFunctions) {
  const KdaCase call = fused_call();
  CountingStages stages;
  (void)fla::original::chunk_kda(call.args);
  (void)fla::original::fused_recurrent_kda(call.args);
  EXPECT_EQ(stages.taken(), (std::vector<int>{0, 0, 0}));
}

TEST(KdaStages, AreNotAskedWhileDispatchIsDisabled) {
  const KdaCase call = fused_call();
  CountingStages stages;
  {
    const fla::ScopedPolicy policy({.disable_dispatch = true});
    (void)fla::chunk_kda(call.args);
    (void)fla::kda(call.args);
  }
  {
    const fla_test::ScopedEnvironment variable({{"FLA_DISABLE_BACKEND_DISPATCH", "1"}});
    fla::reload_environment();
    (void)fla::chunk_kda(call.args);
    (void)fla::fused_recurrent_kda(call.args);
  }
  EXPECT_EQ(stages.taken(), (std::vector<int>{0, 0, 0}));
}

TEST(KdaStages, ObeyTheCallersSettingsOnEveryThread) {
  const KdaCase call = fused_call();
  CountingStages stages;
  for (const int threads : {1, 4}) {
    fla::set_num_threads(threads);
    const fla::ScopedPolicy policy(original_kernels({.deny = {{"counting_norm", "common.counting_gate"}}}));
    (void)fla::chunk_kda(call.args);
    EXPECT_EQ(stages.taken(), (std::vector<int>{0, 0, 2 * 4 * 2})) << threads << " threads";
  }
  fla::set_num_threads(0);
}

TEST(KdaStages, HaveTheSameBitsOnAnyNumberOfThreads) {
  const KdaCase call = fused_call();
  CountingStages stages;
  const fla::ScopedPolicy policy(original_kernels());
  fla::set_num_threads(1);
  const KdaResult alone = fla::chunk_kda(call.args);
  fla::set_num_threads(5);
  EXPECT_TRUE(same_bits(fla::chunk_kda(call.args), alone));
  fla::set_num_threads(0);
}

TEST(KdaStages, AreCheckedAgainstTheReferenceEveryWay) {
  CountingStages stages;
  const fla::ScopedPolicy policy(original_kernels());
  for (const std::int64_t tokens : {1, 15, 16, 17, 64, 65, 130})
    fla_test::expect_agreement(fused_call(tokens).args);
}

TEST(KdaStages, MayUseTheThreadsScratchMemory) {
  const KdaCase call = fused_call();
  const KdaResult alone = fla::original::chunk_kda(call.args);
  const auto messy = register_backend("common.l2_norm", {.name = "messy"}, [](const L2NormArgs& args) {
    std::memset(fla::thread_scratch(1 << 16), 0xff, sizeof(float) << 16);
    return common::original::l2_norm(args);
  });
  const auto nested = register_backend("common.gate", {.name = "nested"}, [](const GateArgs& args) {
    const KdaCase inner = fla::cases::make_kda_case({.T = 20, .H = 1, .K = 64, .V = 64});
    (void)fla::kda(inner.args);
    return common::original::gate(args);
  });
  const fla::ScopedPolicy policy(original_kernels());
  EXPECT_TRUE(same_bits(fla::chunk_kda(call.args), alone));
}

// ---- stages that fail

TEST(KdaStages, ThatFailAreRaisedFromWhateverThread) {
  const KdaCase call = fused_call();
  const auto failing =
      register_backend("common.gate", {.name = "failing"},
                       [](const GateArgs&) -> StageResult { throw std::runtime_error("no gate today"); });
  const fla::ScopedPolicy policy(original_kernels());
  for (const int threads : {1, 4}) {
    fla::set_num_threads(threads);
    for (auto* run : {&fla::chunk_kda, &fla::fused_recurrent_kda}) {
      EXPECT_EQ(fla_test::error_text<BackendError>([&] { (void)run(call.args); }),
                "common.gate: backend failing failed: no gate today");
    }
  }
  fla::set_num_threads(0);
}

TEST(KdaStages, ThatFailFallBackWhereTheSettingsSaySo) {
  const KdaCase call = fused_call();
  const KdaResult alone = fla::original::chunk_kda(call.args);
  std::atomic<int> failures{0};
  const auto failing =
      register_backend("common.gate", {.name = "failing"}, [&](const GateArgs&) -> StageResult {
        ++failures;
        throw BackendError("no gate today", BackendError::Wrote::nothing);
      });
  const fla::ScopedPolicy policy(
      original_kernels({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 0}));
  EXPECT_TRUE(same_bits(fla::chunk_kda(call.args), alone));
  EXPECT_EQ(failures.load(), 2 * 4 * 2);
}

TEST(KdaStages, ThatAreRequiredAndRefuseAreAnError) {
  const KdaCase call = fused_call();
  const auto refusing = register_backend(
      "common.solve_tril", {.name = "refusing"},
      [](const SolveTrilArgs&) { return fla::refuse("not today"); },
      [](const SolveTrilArgs& args) { return common::original::solve_tril(args); });
  const fla::ScopedPolicy policy(original_kernels({.require = {{"common", "refusing"}}}));
  EXPECT_EQ(fla_test::error_text<BackendError>([&] { (void)fla::chunk_kda(call.args); }),
            "common.l2_norm: backend refusing is required and is not_implemented: has no l2_norm");
}

/// "Nothing is lost": a state that is updated in place is the old one or the new one, of all heads.
TEST(KdaStages, ThatFailLeaveAStateInPlaceAsItWas) {
  const KdaCase call = fused_call();
  for (auto* run : {&fla::chunk_kda, &fla::fused_recurrent_kda}) {
    fla::conformance::LaidOut state = fla::conformance::LaidOut::copy_of(call.args.initial_state);
    KdaArgs args = call.args;
    args.initial_state = args.final_state = state.view();
    std::atomic<int> left{11};
    const auto failing = register_backend("common.gate", {.name = "failing"}, [&](const GateArgs& gate) {
      if (--left < 0) throw BackendError("no gate today", BackendError::Wrote::nothing);
      return common::original::gate(gate);
    });
    const fla::ScopedPolicy policy(original_kernels());
    EXPECT_THROW((void)run(args), BackendError);
    EXPECT_TRUE(state.intact());
    left = 1000;
    const KdaResult apart = run(call.args), updated = run(args);
    EXPECT_EQ(updated.final_state.data(), state.view().data());
    EXPECT_TRUE(same_bits(apart, updated));
    EXPECT_TRUE(state.intact_around());
  }
}

TEST(KdaStages, AreDispatchedWithinPlansToo) {
  const KdaCase call = fused_call();
  CountingStages stages;
  const fla::ScopedPolicy policy(original_kernels());
  const fla::Plan<KdaArgs> plan = fla::plan("kda", "chunk_kda", call.args);
  ASSERT_EQ(plan.backend(), "original");
  (void)plan(call.args);
  EXPECT_EQ(stages.taken(), (std::vector<int>{2 * 4 * 2 * 2, 2 * 4 * 2, 2 * 4 * 2}));
}

}  // namespace
