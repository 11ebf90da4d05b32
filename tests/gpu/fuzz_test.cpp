#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/gpu/gpu.h"
#include "tests/ops/recurrence/fuzzed_call.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/device_call.h"

namespace {

using fla::RecurrenceResult;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::FuzzedCall;
using fla_test::kGpu;

constexpr int kParts = 8, kCallsOfAPart = 500;

/// What is wrong with a call on the GPU; empty where nothing is.
template <class Args>
std::string run_one(fla::cases::Random& random) {
  using Functions = fla::cases::Functions<Args>;
  const FuzzedCall<Args> call(random);
  const std::pair<const char*, RecurrenceResult (*)(const Args&)> ways[] = {
      {"front door", Functions::door},
      {"chunk", Functions::chunk},
      {"fused_recurrent", Functions::recurrent},
      {"original chunk", Functions::original_chunk},
      {"original fused_recurrent", Functions::original_recurrent}};
  const auto& [name, run] = ways[random.between(0, std::size(ways) - 1)];
  const auto indices = random.chance(0.5f) ? DeviceIndices::on_device : DeviceIndices::on_host;
  const typename FuzzedCall<Args>::Copy here = call.copy(), there = call.copy();
  const RecurrenceResult expected = Functions::original_recurrent(here.args);
  DeviceCall on_gpu(there.args, kGpu, indices);
  const RecurrenceResult result = on_gpu.bring_back(run(on_gpu.args()));
  std::string wrong =
      fla::conformance::disagreement(result, expected, there.args, here.args.checkpoints) + on_gpu.damage();
  if (there.args.out.defined() && result.o.data() != there.args.out.data()) wrong += "o is not in `out`; ";
  if (there.args.final_state.defined() && result.final_state.data() != there.args.final_state.data())
    wrong += "final_state is not in its place; ";
  for (const auto& output : there.outputs) {
    if (!output.intact_around()) wrong += "something was written around an output; ";
  }
  if (wrong.empty()) return "";
  return std::string(Args::kOp.name) + " " + name + ": " + wrong + fla::conformance::describe(there.args);
}

class FuzzOnGpu : public fla_test::OnGpu<testing::TestWithParam<int>> {};

TEST_P(FuzzOnGpu, AgreesWithTheOriginalKernelOnTheCpu) {
  for (int i = 0; i < kCallsOfAPart; ++i) {
    fla::cases::Random random(static_cast<std::uint64_t>(GetParam()) << 32 | static_cast<std::uint64_t>(i));
    const std::string_view op =
        fla::cases::kOpNames[static_cast<std::size_t>(random.between(0, fla::cases::kOpNames.size() - 1))];
    const std::string wrong =
        fla::cases::with_op(op, [&]<class Args>(std::type_identity<Args>) { return run_one<Args>(random); });
    ASSERT_EQ(wrong, "") << "call " << i << " of part " << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, FuzzOnGpu, testing::Range(0, kParts));

}  // namespace
