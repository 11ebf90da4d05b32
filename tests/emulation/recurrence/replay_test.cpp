#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda_decode/decode.h"
#include "fla/ops/recurrence/call_of.h"
#include "tests/emulation/block.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/conformance/ring_walk.h"

/// Steps over rings by the kernels for GPUs, compiled by the C++ compiler and run on the CPU.
namespace {

using fla::DType;
using fla::ReplayResult;
using fla::cases::DataKind;
using fla::conformance::RingWalk;
using fla::emulation::block::Schedule;

/// The result of a kernel, in memory and with a workspace that hold NaNs before.
template <class Args, class Launch>
ReplayResult run(const Args& args, Launch&& launch) {
  const fla::recurrence::ReplayArguments all = fla::recurrence::replay_arguments_of(args);
  ReplayResult result = fla::recurrence::make_result(all);
  fla_test::poison(result.o);
  const fla::ReplayCall call = fla::recurrence::call_of(all, result);
  const auto workspace = fla_test::workspace_of(fla::cuda::replay_workspace(call));
  EXPECT_EQ(launch(call, workspace.get()), cudaSuccess);
  return result;
}

const auto original_step = [](const auto& args) {
  return run(args, [](const fla::ReplayCall& call, void* workspace) {
    return fla::cuda::launch_replay(call, workspace, nullptr);
  });
};
const auto decode_step = [](const auto& args) {
  return run(args, [](const fla::ReplayCall& call, void* workspace) {
    return fla::cuda::launch_replay_step(call, workspace, true, nullptr);
  });
};

template <class Args>
class EmulatedReplay : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;

  ~EmulatedReplay() override { fla::emulation::block::set_schedule({}); }

  /// Sizes and types that cuda_decode takes, every kind of gates.
  static std::vector<Spec> decoded() {
    std::vector<Spec> specs =
        fla::conformance::specs_with_options<Args>({.B = 2, .T = 24, .H = 1, .HV = 2, .K = 64, .V = 64});
    specs.push_back({.B = 2, .T = 24, .H = 1, .K = 128, .V = 64});
    specs.back().data = DataKind::resets;
    specs.push_back({.B = 2, .T = 24, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16});
    specs.back().gate_dtype = specs.back().state_dtype = DType::bf16;
    specs.back().data = DataKind::slow;
    specs.push_back({.B = 2, .T = 24, .H = 1, .K = 128, .V = 64, .state_dtype = DType::bf16});
    specs.back().options.state_v_first = true;
    specs.push_back({.B = 2, .T = 24, .H = 1, .K = 64, .V = 64, .state_dtype = DType::bf16});
    specs.back().data = DataKind::strong;
    return specs;
  }

  static double tolerance(const Spec& spec) {
    return spec.dtype == DType::bf16 || spec.state_dtype == DType::bf16 ? 1.6e-2 : 2e-5;
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(EmulatedReplay, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(EmulatedReplay, OriginalAgreesWithPlainSteps) {
  auto specs =
      fla::conformance::specs_with_options<TypeParam>({.B = 2, .T = 24, .H = 1, .HV = 2, .K = 24, .V = 40});
  specs.push_back({.B = 2, .T = 24, .H = 1, .K = 200, .V = 33});
  specs.back().data = DataKind::resets;
  specs.push_back({.B = 2, .T = 24, .H = 1, .K = 64, .V = 20, .dtype = DType::bf16});
  specs.back().state_dtype = DType::bf16;
  for (const auto& spec : specs) {
    for (const std::int64_t T : {1, 3}) {
      EXPECT_EQ(
          RingWalk<TypeParam>(spec, {.L = 9, .T = T, .steps = 14, .strided = T == 1, .indices = DType::i32})
              .run(original_step, original_step, this->tolerance(spec), this->tolerance(spec)),
          "");
    }
  }
  EXPECT_EQ(RingWalk<TypeParam>(specs[0], {.L = 32, .T = 11, .steps = 6})
                .run(original_step, original_step, 2e-5, 2e-5),
            "");
}

TYPED_TEST(EmulatedReplay, DecodeAgreesWithPlainSteps) {
  if constexpr (TypeParam::kOp.rule != fla::Rule::low_rank) {
    for (const auto& spec : this->decoded()) {
      for (const std::int64_t T : {1, 3}) {
        SCOPED_TRACE("K=" + std::to_string(spec.K) + " V=" + std::to_string(spec.V) +
                     " T=" + std::to_string(T));
        EXPECT_EQ(RingWalk<TypeParam>(spec, {.L = 11, .T = T, .steps = 16})
                      .run(decode_step, original_step, this->tolerance(spec), this->tolerance(spec)),
                  "");
      }
    }
    EXPECT_EQ(RingWalk<TypeParam>(this->decoded()[0], {.L = 32, .T = 8, .steps = 7})
                  .run(decode_step, original_step, 2e-5, 2e-5),
              "");
  }
}

TYPED_TEST(EmulatedReplay, HasTheSameBitsInAnyOrderOfThreads) {
  std::vector<std::byte> expected;
  const auto walk = [&](auto&& kernel, const fla::cases::CaseSpec<TypeParam>& spec, std::int64_t T) {
    std::vector<std::byte> bytes;
    EXPECT_EQ(RingWalk<TypeParam>(spec, {.L = 8, .T = T, .steps = 10})
                  .run(
                      [&](const auto& args) {
                        ReplayResult result = kernel(args);
                        const std::vector<std::byte> now = fla::conformance::bytes_of(result.o);
                        bytes.insert(bytes.end(), now.begin(), now.end());
                        return result;
                      },
                      original_step, this->tolerance(spec), this->tolerance(spec)),
              "");
    return bytes;
  };
  const auto expect_same = [&](auto&& kernel, const fla::cases::CaseSpec<TypeParam>& spec, std::int64_t T) {
    fla::emulation::block::set_schedule({});
    const std::vector<std::byte> bytes = walk(kernel, spec, T);
    for (const auto order : {Schedule::Order::backwards, Schedule::Order::rotating,
                             Schedule::Order::first_warp_first, Schedule::Order::last_warp_first}) {
      fla::emulation::block::set_schedule({.order = order});
      EXPECT_EQ(walk(kernel, spec, T), bytes) << static_cast<int>(order);
    }
  };
  for (const std::int64_t T : {1, 2}) {
    expect_same(original_step, {.B = 2, .T = 24, .H = 1, .HV = 2, .K = 24, .V = 40}, T);
    if constexpr (TypeParam::kOp.rule != fla::Rule::low_rank)
      expect_same(decode_step, {.B = 2, .T = 24, .H = 1, .HV = 2, .K = 64, .V = 64}, T);
  }
}

}  // namespace
