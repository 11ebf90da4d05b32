#include <gtest/gtest.h>

#include <new>
#include <string>
#include <thread>

#include "fla/core/threads.h"
#include "fla/dispatch/choice/function_backend.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/common/stages.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::KdaArgs;
using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::LaidOut;

/// With memory for its results given, a call allocates nothing once a call of its size has run on the thread.
class KdaMemory : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { fla::set_num_threads(1); }
  void TearDown() override { fla::set_num_threads(0); }
};

TEST_P(KdaMemory, IsNotAllocatedWhenTheOutputsAreGiven) {
  const KdaCase call = make_kda_case({.B = 2, .T = GetParam(), .H = 2, .HV = 4, .K = 32, .V = 48});
  const LaidOut out(call.args.v.shape(), fla::DType::f32);
  const LaidOut state(call.args.initial_state.shape(), fla::DType::f32);
  KdaArgs args = call.args;
  args.out = out;
  args.final_state = state;
  for (const auto& [name, run] : fla_test::kEveryWay) {
    for (int i = 0; i < 2; ++i) (void)run(args);
    const std::uint64_t before = fla_test::allocations();
    (void)run(args);
    EXPECT_EQ(fla_test::allocations(), before) << name;
  }
  const fla::Plan<KdaArgs> plan = fla::plan("kda", fla::front_door(args), args);
  (void)plan(args);
  const std::uint64_t before = fla_test::allocations();
  (void)plan(args);
  EXPECT_EQ(fla_test::allocations(), before) << "a plan";
}

TEST_P(KdaMemory, IsNotAllocatedByStagesEither) {
  const KdaCase call = make_kda_case({.B = 2,
                                      .T = GetParam(),
                                      .H = 2,
                                      .HV = 4,
                                      .K = 32,
                                      .V = 48,
                                      .options = {.output_final_state = true,
                                                  .use_qk_l2norm_in_kernel = true,
                                                  .use_gate_in_kernel = true,
                                                  .use_beta_sigmoid_in_kernel = true}});
  const LaidOut out(call.args.v.shape(), fla::DType::f32);
  const LaidOut state(call.args.initial_state.shape(), fla::DType::f32);
  KdaArgs args = call.args;
  args.out = out;
  args.final_state = state;
  const auto taken =
      fla::register_backend("common.l2_norm", {.name = "taken"},
                            [](const fla::L2NormArgs& norm) { return fla::common::original::l2_norm(norm); });
  const fla::ScopedPolicy original_kernels({.order = {{"kda", {}}}});
  for (const auto& [name, run] : fla_test::kEveryWay) {
    for (int i = 0; i < 2; ++i) (void)run(args);
    const std::uint64_t before = fla_test::allocations();
    (void)run(args);
    EXPECT_EQ(fla_test::allocations(), before) << name;
  }
}

TEST_P(KdaMemory, IsNotAllocatedForStatesInAPool) {
  for (const bool write_indices : {false, true}) {
    const KdaCase call = make_kda_case(
        {.B = 40, .T = GetParam(), .H = 1, .K = 16, .V = 16, .pool = 90, .write_indices = write_indices});
    const LaidOut out(call.args.v.shape(), fla::DType::f32);
    KdaArgs args = call.args;
    args.out = out;
    args.final_state = args.initial_state;
    for (const auto& [name, run] : fla_test::kEveryWay) {
      for (int i = 0; i < 2; ++i) (void)run(args);
      const std::uint64_t before = fla_test::allocations();
      (void)run(args);
      EXPECT_EQ(fla_test::allocations(), before) << name;
    }
  }
}

#ifndef FLA_TEST_HAS_ALLOCATION_HOOK
TEST(KdaWithoutMemory, GivesTheCallerBadAllocFromWhicheverThreadHadNone) {
  const KdaCase call = make_kda_case({.B = 4, .T = 20, .H = 2, .K = 200, .V = 200});
  const LaidOut out(call.args.v.shape(), fla::DType::f32);
  const LaidOut state(call.args.initial_state.shape(), fla::DType::f32);
  KdaArgs args = call.args;
  args.out = out;
  args.final_state = state;
  for (const int threads : {1, 4}) {
    fla::set_num_threads(threads);
    for (const auto& [name, run] : fla_test::kEveryWay) {
      // A new thread, and the ones that it opens, have no scratch yet.
      std::thread([&, name = name, run = run] {
        const fla_test::FailingAllocations failing(64 * 1024);
        EXPECT_THROW((void)run(args), std::bad_alloc) << name << " on " << threads;
      }).join();
    }
  }
  fla::set_num_threads(0);
  fla_test::expect_agreement(args);
}
#endif

INSTANTIATE_TEST_SUITE_P(Lengths, KdaMemory, testing::Values(1, 8, 40),
                         [](const auto& test) { return std::string("T") + std::to_string(test.param); });

}  // namespace
