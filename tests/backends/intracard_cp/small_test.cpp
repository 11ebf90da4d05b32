#include <gtest/gtest.h>

#include "tests/backends/intracard_cp/intracard_cp_test.h"
#include "tools/cases/accuracy.h"

/// The shortest calls that are cut: what compute-sanitizer watches, which makes each of them a hundred times
/// dearer.
namespace {

using fla::cases::make_kda_case;

class SmallIntracardCp : public fla_test::IntracardCpTest {};

TEST_F(SmallIntracardCp, IsRight) {
  for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16}) {
    fla::cases::KdaSpec spec{.H = 1,
                             .K = 32,
                             .V = 32,
                             .lengths = {1000, 3096},
                             .dtype = dtype,
                             .data = fla::cases::DataKind::slow};
    spec.pool = 4;
    const fla_test::Errors errors = fla_test::InParts::errors_of(make_kda_case(spec).args);
    EXPECT_LE(errors.o, fla::cases::tolerance(dtype));
    EXPECT_LE(errors.final_state, 2e-5);
  }
}

}  // namespace
