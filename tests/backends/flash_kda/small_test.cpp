#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fla/ops/gla/gla.h"
#include "fla/ops/simple_gla/simple_gla.h"
#include "tests/backends/flash_kda/flash_test.h"
#include "tests/gpu/allocated_apart.h"

/// A few small calls of every route and path: what compute-sanitizer watches, which makes each of them a
/// hundred times dearer.
namespace {

using fla::DType;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;

/// initcheck does not see the bulk copies that write packets, and would take what state reads for
/// uninitialised: memory is filled beforehand.
class SmallFlash : public fla_test::AllocatedApart<fla_test::FlashTest, true> {
 protected:
  static void expect_right(const KdaSpec& spec) {
    const KdaCase made = make_kda_case(spec);
    const fla_test::Errors errors = fla_test::errors_of(made.args);
    EXPECT_LE(errors.o, 3.5e-3) << fla::conformance::describe(made.args);
    EXPECT_LE(errors.final_state, 1e-3) << fla::conformance::describe(made.args);
  }
};

TEST_F(SmallFlash, IsRightOnEveryRoute) {
  const fla::KdaArgs options{.output_final_state = true, .use_qk_l2norm_in_kernel = true};
  expect_right({.T = 200, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .options = options});
  expect_right({.H = 1,
                .HV = 2,
                .K = 128,
                .V = 128,
                .lengths = {10, 70, 0, 200},
                .dtype = DType::f16,
                .options = options});
  expect_right({.T = 1500, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .options = options});
}

TEST_F(SmallFlash, IsRightWithEveryOption) {
  for (const bool v_first : {false, true}) {
    expect_right({.B = 2,
                  .T = 150,
                  .H = 2,
                  .K = v_first ? 64 : 128,
                  .V = 128,
                  .dtype = DType::bf16,
                  .gate_dtype = v_first ? DType::bf16 : DType::f32,
                  .pool = 5,
                  .options = {.output_final_state = true,
                              .use_qk_l2norm_in_kernel = true,
                              .use_gate_in_kernel = true,
                              .use_beta_sigmoid_in_kernel = true,
                              .lower_bound = -5.0f,
                              .state_v_first = v_first}});
  }
}

template <class Args>
void expect_right_by_chunks(fla::RecurrenceResult (*chunk)(const Args&)) {
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {10, 70, 0, 200}}) {
    for (const std::int64_t T : {200, 1500}) {
      fla::cases::CaseSpec<Args> spec{
          .T = T, .H = 1, .HV = 2, .K = 128, .V = 128, .lengths = lengths, .dtype = DType::bf16};
      spec.options.state_v_first = T == 200;
      const auto made = fla::cases::make_case<Args>(spec);
      fla::conformance::DeviceCall call(made.args, fla_test::kGpu);
      const fla::cases::Errors errors =
          fla::cases::errors_of(call.bring_back(chunk(call.args())), fla::cases::reference_of(made.args));
      EXPECT_LE(errors.o, 3.5e-3) << fla::conformance::describe(made.args);
      EXPECT_LE(errors.final_state, 1e-3) << fla::conformance::describe(made.args);
    }
  }
}
TEST_F(SmallFlash, IsRightWithoutADeltaRule) {
  expect_right_by_chunks(fla::chunk_gla);
  expect_right_by_chunks(fla::chunk_simple_gla);
}

TEST_F(SmallFlash, IsRightWithoutAReference) {
  for (const DataKind data : {DataKind::strong, DataKind::resets})
    expect_right({.T = 130,
                  .H = 1,
                  .K = 128,
                  .V = 64,
                  .dtype = DType::f16,
                  .data = data,
                  .options = {.output_final_state = true, .use_qk_l2norm_in_kernel = true}});
}

}  // namespace
