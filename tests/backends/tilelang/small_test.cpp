#include <gtest/gtest.h>

#include "tests/backends/tilelang/tilelang_test.h"

/// A small call of every instance: what compute-sanitizer watches, which makes each of them a hundred times
/// dearer.
namespace {

using fla::cases::KdaCase;
using fla::cases::make_kda_case;

class SmallTileLang : public fla_test::TileLangTest {};

TEST_F(SmallTileLang, EveryInstanceIsRight) {
  for (fla::cases::KdaSpec spec : fla_test::specs_of_instances(70)) {
    const KdaCase made = make_kda_case(spec);
    const fla_test::Errors errors = fla_test::errors_of(made.args);
    EXPECT_LE(errors.o, 2.5e-3) << fla::conformance::describe(made.args);
    EXPECT_LE(errors.final_state, 1e-3) << fla::conformance::describe(made.args);
  }
}

TEST_F(SmallTileLang, WithGatesInTheKernelAndStatesInAPool) {
  for (fla::cases::KdaSpec spec : fla_test::specs_of_instances(70)) {
    if (spec.dtype != fla::DType::bf16) continue;
    spec.pool = 6;
    spec.options = {.output_final_state = true,
                    .use_qk_l2norm_in_kernel = true,
                    .use_gate_in_kernel = true,
                    .use_beta_sigmoid_in_kernel = true,
                    .state_v_first = true};
    const KdaCase made = make_kda_case(spec);
    const fla_test::Errors errors = fla_test::errors_of(made.args);
    EXPECT_LE(errors.o, 2.5e-3) << fla::conformance::describe(made.args);
    EXPECT_LE(errors.final_state, 1e-3) << fla::conformance::describe(made.args);
  }
}

}  // namespace
