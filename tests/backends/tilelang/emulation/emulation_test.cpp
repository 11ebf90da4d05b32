#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/tilelang/tilelang.h"
#include "fla/ops/recurrence/call_of.h"
#include "tests/emulation/block.h"
#include "tests/ops/kda/extremes.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"

/// Every generated kernel, compiled by the C++ compiler and run on the CPU.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::emulation::block::Schedule;

/// The result of a call of tensors on the CPU, in a workspace full of NaNs.
template <class Args>
KdaResult emulated(const Args& args, const Schedule& schedule = {}) {
  fla::emulation::block::set_schedule(schedule);
  KdaResult result = fla::make_result(args);
  fla::RecurrenceCall call = fla::call_of(args, result);
  call.cu_seqlens.on_host = call.read_slots.on_host = call.write_slots.on_host = false;
  const std::size_t bytes = fla::tilelang::workspace(call);
  const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(256, bytes), std::free);
  std::memset(workspace.get(), 0xff, bytes);
  EXPECT_EQ(fla::tilelang::launch(call, workspace.get(), nullptr), cudaSuccess);
  return result;
}

void expect_right(const KdaSpec& spec, const fla_test::Magnitude& magnitude = {"plain", 0, 0, 0}) {
  const KdaCase made = make_kda_case(spec);
  fla_test::apply(magnitude, made.args);
  const fla::cases::Errors errors =
      fla::cases::errors_of(emulated(made.args), fla::cases::reference_of(made.args));
  const bool repeated = spec.data == DataKind::repeated_keys;
  EXPECT_LE(errors.o, repeated                    ? 5e-3
                      : spec.dtype == DType::bf16 ? 2.5e-3
                                                  : 1e-3)
      << magnitude.name << " " << fla::conformance::describe(made.args);
  EXPECT_LE(errors.final_state, repeated ? 5e-3 : 1e-3)
      << magnitude.name << " " << fla::conformance::describe(made.args);
}

struct Instances {
  std::int64_t K;
  DType dtype;
  bool packed;
};

std::vector<Instances> all_instances() {
  std::vector<Instances> all;
  for (const std::int64_t K : {64, 128, 256}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const bool packed : {false, true}) all.push_back({K, dtype, packed});
    }
  }
  return all;
}

class EmulatedTileLang : public testing::TestWithParam<Instances> {
 protected:
  KdaSpec spec() const {
    KdaSpec spec{.B = 2, .T = 130, .H = 1, .HV = 2, .K = GetParam().K, .V = 64, .dtype = GetParam().dtype};
    if (GetParam().packed) {
      spec.lengths = {70, 0, 1, 64, 0};
      spec.index_dtype = spec.dtype == DType::bf16 ? DType::i32 : DType::i64;
    }
    return spec;
  }
};

TEST_P(EmulatedTileLang, ServesAGateAToken) {
  fla::cases::CaseSpec<fla::GatedDeltaRuleArgs> spec{
      .B = 2, .T = 130, .H = 1, .HV = 2, .K = GetParam().K, .V = 64, .dtype = GetParam().dtype};
  if (GetParam().packed) spec.lengths = {70, 0, 1, 64, 0};
  const auto expect = [&](const char* what) {
    const auto made = fla::cases::make_case(spec);
    const fla::cases::Errors errors =
        fla::cases::errors_of(emulated(made.args), fla::cases::reference_of(made.args));
    EXPECT_LE(errors.o, spec.dtype == DType::bf16 ? 2.5e-3 : 1e-3) << what;
    EXPECT_LE(errors.final_state, 1e-3) << what;
  };
  for (const DataKind data : {DataKind::random, DataKind::slow, DataKind::strong, DataKind::resets}) {
    spec.data = data;
    expect("gates given");
  }
  spec.data = DataKind::random;
  spec.options.use_gate_in_kernel = spec.options.use_qk_l2norm_in_kernel =
      spec.options.use_beta_sigmoid_in_kernel = true;
  expect("a gate in the kernel");
  spec.options.lower_bound = -5.0f;
  spec.gate_dtype = spec.dtype;
  expect("a bounded gate in the kernel");
}

TEST_P(EmulatedTileLang, IsRightOnEveryKindOfData) {
  for (const DataKind data : fla::cases::kAllDataKinds) {
    KdaSpec spec = this->spec();
    spec.B = 1;
    spec.data = data;
    expect_right(spec);
  }
}

TEST_P(EmulatedTileLang, IsRightWithEitherGateInTheKernel) {
  KdaSpec spec = this->spec();
  spec.V = 128;
  spec.gate_dtype = spec.dtype;
  spec.options = {.output_final_state = true,
                  .use_qk_l2norm_in_kernel = true,
                  .use_gate_in_kernel = true,
                  .use_beta_sigmoid_in_kernel = true,
                  .state_v_first = true};
  expect_right(spec);
  spec.options.lower_bound = -5.0f;
  spec.options.allow_neg_eigval = true;
  spec.initial_state = false;
  expect_right(spec);
}

TEST_P(EmulatedTileLang, IsRightWithStatesInAPool) {
  KdaSpec spec = this->spec();
  spec.data = DataKind::slow;
  spec.pool = 6;
  for (const bool moved : {false, true}) {
    spec.write_indices = moved;
    expect_right(spec);
  }
}

TEST_P(EmulatedTileLang, IsAsRightForLargeAndSmallNumbers) {
  KdaSpec spec = this->spec();
  spec.B = 1;
  spec.HV = 1;
  spec.data = DataKind::slow;
  for (const fla_test::Magnitude& magnitude : fla_test::magnitudes_of(spec.dtype))
    expect_right(spec, magnitude);
}

TEST_P(EmulatedTileLang, IsCausalWhereNumbersAreNotFinite) {
  KdaSpec spec = this->spec();
  spec.B = 1;
  for (const bool normalised : {false, true}) {
    spec.options.use_qk_l2norm_in_kernel = normalised;
    const KdaCase made = make_kda_case(spec);
    std::vector<fla_test::Spoilt> all = fla_test::all_spoilt(made.args, {normalised ? 129 : 3});
    for (const double value : {NAN, INFINITY})
      all.push_back({"initial_state", &made.args.initial_state, value, 0});  // of the first head
    for (const fla_test::Spoilt& spoilt : all) {
      if (spoilt.value < 0 || std::isnan(spoilt.value) == normalised) continue;  // the rest: tests/gpu
      fla_test::expect_causal(made.args, spoilt, spec.dtype == DType::bf16 ? 2.5e-3 : 1e-3,
                              [](const KdaArgs& args) { return emulated(args); });
    }
  }
}

TEST_P(EmulatedTileLang, GivesTheSameBitsInWhateverOrderThreadsRunAndCopiesArrive) {
  KdaSpec spec = this->spec();
  spec.data = DataKind::mixed;
  const KdaCase made = make_kda_case(spec);
  const KdaResult expected = emulated(made.args);
  for (const auto order :
       {Schedule::Order::forwards, Schedule::Order::backwards, Schedule::Order::rotating}) {
    for (const bool late : {false, true}) {
      EXPECT_TRUE(fla::conformance::same_bits(expected, emulated(made.args, {order, late})))
          << static_cast<int>(order) << (late ? " late" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Instances, EmulatedTileLang, testing::ValuesIn(all_instances()),
                         [](const auto& test) {
                           return "K" + std::to_string(test.param.K) + "_" +
                                  std::string(fla::name_of(test.param.dtype)) +
                                  (test.param.packed ? "_packed" : "");
                         });

}  // namespace
