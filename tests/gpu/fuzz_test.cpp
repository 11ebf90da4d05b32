#include <gtest/gtest.h>

#include <string>

#include "tests/gpu/gpu_agreement.h"
#include "tests/ops/kda/fuzzed_call.h"

namespace {

using fla::KdaArgs;
using fla::KdaResult;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::FuzzedCall;
using fla_test::kGpu;

constexpr int kParts = 8, kCallsOfAPart = 500;

class KdaFuzzOnGpu : public fla_test::OnGpu<testing::TestWithParam<int>> {};

TEST_P(KdaFuzzOnGpu, AgreesWithTheOriginalKernelOnTheCpu) {
  for (int i = 0; i < kCallsOfAPart; ++i) {
    fla::cases::Random random(static_cast<std::uint64_t>(GetParam()) << 32 | static_cast<std::uint64_t>(i));
    const FuzzedCall call(random);
    const auto& [name, run] = fla_test::kEveryWay[random.between(0, std::size(fla_test::kEveryWay) - 1)];
    const auto indices = random.chance(0.5f) ? DeviceIndices::on_device : DeviceIndices::on_host;
    const FuzzedCall::Copy here = call.copy(), there = call.copy();
    const KdaResult expected = fla::original::fused_recurrent_kda(here.args);
    DeviceCall on_gpu(there.args, kGpu, indices);
    const KdaResult result = on_gpu.bring_back(run(on_gpu.args()));
    std::string wrong = fla::conformance::disagreement(result, expected, there.args) + on_gpu.damage();
    if (there.args.out.defined() && result.o.data() != there.args.out.data()) wrong += "o is not in `out`; ";
    if (there.args.final_state.defined() && result.final_state.data() != there.args.final_state.data())
      wrong += "final_state is not in its place; ";
    for (const auto& output : there.outputs) {
      if (!output.intact_around()) wrong += "something was written around an output; ";
    }
    ASSERT_EQ(wrong, "") << name << ", call " << i << " of part " << GetParam() << "\n"
                         << fla::conformance::describe(there.args);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, KdaFuzzOnGpu, testing::Range(0, kParts));

}  // namespace
