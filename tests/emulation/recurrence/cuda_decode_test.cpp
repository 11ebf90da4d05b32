#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "backends/cuda_decode/decode.h"
#include "tests/emulation/block.h"
#include "tests/emulation/recurrence/forward.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/token_tensors.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

/// cuda_decode's kernels, compiled by the C++ compiler and run on the CPU.
namespace {

using fla::DType;
using fla::RecurrenceResult;
using fla::TensorView;
using fla::cases::DataKind;
using fla::cases::relative_error;
using fla::conformance::same_bytes;
using fla::emulation::block::Schedule;

template <class Args>
RecurrenceResult decode(const Args& args) {
  const auto launch = [](const auto& call, const auto& extras, void* workspace, cudaStream_t stream) {
    return fla::cuda::launch_decode(call, extras, workspace, true, stream);
  };
  return fla_test::run_emulated(args, fla::cuda::recurrent_workspace, launch);  // which is that of indices
}

template <class Args>
class EmulatedDecode : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;

  ~EmulatedDecode() override { fla::emulation::block::set_schedule({}); }

  /// Both sizes of keys and values, both layouts and types of states, every kind of gates.
  static std::vector<Spec> specs() {
    std::vector<Spec> specs{
        {.B = 2, .H = 1, .HV = 2, .K = 128, .V = 64},
        {.B = 1, .H = 2, .K = 64, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16},
        {.B = 1, .H = 1, .K = 64, .V = 64, .state_dtype = DType::bf16},
        {.B = 1, .H = 1, .K = 128, .V = 128, .state_dtype = DType::bf16}};
    specs[1].options.state_v_first = true;
    specs[1].data = DataKind::resets;
    specs[2].initial_state = false;
    specs[2].data = DataKind::slow;
    specs[3].options.state_v_first = true;
    fla_test::add_options(specs, specs[0], specs[0]);
    return specs;
  }

  /// Of a call with host tensors: its token t alone.
  static Args token(Args args, std::int64_t t) {
    fla::cases::for_each_token_tensor(args, [&](TensorView& tensor) { tensor = tensor.slice(1, t, 1); });
    return args;
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(EmulatedDecode, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(EmulatedDecode, AgreesWithTheReference) {
  for (auto spec : this->specs()) {
    for (const std::int64_t T : {1, 2, 8}) {
      spec.T = T;
      const auto made = fla::cases::make_case(spec);
      EXPECT_EQ(
          fla::conformance::disagreement(decode(made.args), fla::cases::reference_of(made.args), made.args),
          "")
          << "T=" << T << " K=" << spec.K << " V=" << spec.V;
    }
  }
}

TYPED_TEST(EmulatedDecode, SeveralTokensAgreeWithStepsOneByOne) {
  for (auto spec : this->specs()) {
    spec.T = 6;
    if (spec.state_dtype != DType::f32) continue;
    if constexpr (requires { spec.options.normalize; }) {
      if (spec.options.normalize) continue;  // a call's sum of keys begins with its tokens
    }
    const auto made = fla::cases::make_case(spec);
    const RecurrenceResult all = decode(made.args);
    auto args = made.args;
    RecurrenceResult one;
    for (std::int64_t t = 0; t < spec.T; ++t) {
      one = decode(this->token(args, t));
      args.initial_state = one.final_state;
      EXPECT_LE(relative_error(all.o.view().slice(1, t, 1), one.o), all.o.dtype() == DType::f32 ? 2e-6 : 2e-3)
          << t;
    }
    EXPECT_LE(relative_error(all.final_state, one.final_state), 2e-6) << "K=" << spec.K << " V=" << spec.V;
  }
}

TYPED_TEST(EmulatedDecode, CheckpointsGoWhereTheyAreWanted) {
  for (auto spec : this->specs()) {
    spec.T = 5;
    if (!spec.initial_state) spec.options.output_final_state = false;  // it would be f32
    for (const std::int64_t every : {1, 2}) {
      spec.options.checkpoint_every = every;
      spec.checkpoints = 3;
      spec.checkpoint_dtype = spec.state_dtype;
      const auto made = fla::cases::make_case(spec);
      const auto reference = fla::cases::reference_of(made.args);
      const RecurrenceResult result = decode(made.args);
      const double tolerance = spec.state_dtype == DType::f32 ? 2e-5 : 1e-2;
      EXPECT_LE(fla::cases::checkpoint_error(made.args.checkpoints, reference), tolerance) << spec.K;
      EXPECT_TRUE(fla::cases::rest_holds(made.args.checkpoints, reference, 0.125)) << spec.K;
      EXPECT_EQ(fla::conformance::disagreement(result, reference, made.args), "") << spec.K;
    }
  }
}

TYPED_TEST(EmulatedDecode, StatesOfDraftsGoIntoSlots) {
  typename TestFixture::Spec spec{.B = 5, .T = 4, .H = 1, .K = 64, .V = 64};
  spec.options.checkpoint_every = 1;
  spec.pool = 24;
  spec.checkpoint_indices = true;
  spec.accepted_tokens = true;
  const auto made = fla::cases::make_case(spec);
  const auto reference = fla::cases::reference_of(made.args);
  const auto before = fla::conformance::LaidOut::copy_of(made.args.final_state);
  const RecurrenceResult result = decode(made.args);
  EXPECT_LE(fla::cases::errors_of(result, reference).worst(), 2e-5);
  for (std::int64_t slot = 0; slot < *spec.pool; ++slot) {
    if (std::ranges::find(reference.slots, slot) != reference.slots.end()) continue;
    EXPECT_TRUE(same_bytes(result.final_state.view().slice(0, slot, 1), before.view().slice(0, slot, 1)));
  }
}

TYPED_TEST(EmulatedDecode, HasTheSameBitsInAnyOrderOfThreads) {
  for (auto spec : this->specs()) {
    spec.T = 3;
    const auto made = fla::cases::make_case(spec);
    fla::emulation::block::set_schedule({});
    const RecurrenceResult expected = decode(made.args);
    for (const auto order : {Schedule::Order::backwards, Schedule::Order::rotating,
                             Schedule::Order::first_warp_first, Schedule::Order::last_warp_first}) {
      fla::emulation::block::set_schedule({.order = order});
      EXPECT_TRUE(fla::conformance::same_bits(decode(made.args), expected)) << static_cast<int>(order);
    }
  }
}

}  // namespace
