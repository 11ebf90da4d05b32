#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/ops/kda/fuzzed_call.h"
#include "tools/conformance/kda_agreement.h"

namespace {

using fla::KdaArgs;
using fla::KdaResult;
using fla::conformance::describe;
using fla_test::FuzzedCall;

constexpr int kParts = 10;  // CTest runs them side by side

/// FLA_FUZZ_CALLS: how many calls all parts make together.
std::int64_t calls_of_a_part() {
  const auto value = fla::environment("FLA_FUZZ_CALLS");
  return (value ? fla::parse_number("FLA_FUZZ_CALLS", *value, kParts, 1'000'000'000) : 100'000) / kParts;
}

/// FLA_FUZZ_CASE: the one call of every part to run again.
std::int64_t only_case() {
  const auto value = fla::environment("FLA_FUZZ_CASE");
  return value ? fla::parse_number("FLA_FUZZ_CASE", *value, 0, 1'000'000'000) : -1;
}

using Function = KdaResult (*)(const KdaArgs&);

std::string run_good(const FuzzedCall& call, Function dispatched, Function original) {
  const FuzzedCall::Copy a = call.copy(), b = call.copy();
  const KdaResult answer = dispatched(a.args), expected = original(b.args);
  std::string wrong = fla::conformance::disagreement(answer, expected, a.args);
  if (a.args.out.defined() && answer.o.data() != a.args.out.data()) wrong += "o is not in `out`; ";
  if (a.args.final_state.defined() && answer.final_state.data() != a.args.final_state.data()) {
    wrong += "final_state is not in its place; ";
  }
  for (const FuzzedCall::Copy* copy : {&a, &b}) {
    for (const auto& output : copy->outputs) {
      if (!output.intact_around()) wrong += "something was written around an output; ";
    }
  }
  if (!call.inputs_intact()) wrong += "something was written into an input; ";
  return wrong;
}

std::string run_bad(FuzzedCall::Copy& call, const std::string& argument, Function dispatched) {
  std::string wrong;
  try {
    (void)dispatched(call.args);
    wrong = "nothing was thrown; ";
  } catch (const fla::InvalidArgument& error) {
    if (error.argument() != argument)
      wrong = "the error names another argument: " + std::string(error.what()) + "; ";
  }
  for (const auto& output : call.outputs) {
    if (!output.intact()) wrong += "something was written; ";
  }
  return wrong;
}

/// How many calls of kda backends have taken, and whether there is any that could.
struct Backends {
  std::uint64_t taken = 0;
  bool available = false;
};
Backends backends() {
  Backends found;
  for (const fla::BackendCounters& row : fla::counters()) {
    if (row.op == "kda" && row.backend != "original") found.taken += row.taken;
  }
  for (const fla::OpStatus& op : fla::ops()) {
    if (op.name != "kda") continue;
    for (const fla::BackendStatus& backend : op.backends)
      found.available |= backend.available && backend.enabled;
  }
  return found;
}

class KdaFuzz : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { fla::set_num_threads(GetParam() % 5 == 4 ? 2 : 1); }
  void TearDown() override { fla::set_num_threads(0); }
};

TEST_P(KdaFuzz, AgreesWithTheOriginalKernelAndRefusesBadCalls) {
  const std::int64_t count = calls_of_a_part(), only = only_case();
  const std::uint64_t taken_before = backends().taken;
  std::int64_t good = 0, bad = 0;
  for (std::int64_t i = only < 0 ? 0 : only; i < (only < 0 ? count : only + 1); ++i) {
    fla::cases::Random random(static_cast<std::uint64_t>(GetParam()) << 32 | static_cast<std::uint64_t>(i));
    const FuzzedCall call(random);
    const auto way = random.between(0, 2);
    const Function dispatched = way == 0 ? fla::kda : way == 1 ? fla::chunk_kda : fla::fused_recurrent_kda;
    const Function original = way == 1 ? fla::original::chunk_kda : fla::original::fused_recurrent_kda;
    std::string wrong, how;
    if (random.chance(0.7f)) {
      wrong = run_good(call, dispatched, original);
      ++good;
    } else {
      FuzzedCall::Copy copy = call.copy();
      const auto [argument, what] = FuzzedCall::spoil(copy, random);
      if (argument.empty()) {
        wrong = run_good(call, dispatched, original);
        ++good;
      } else {
        how = " with " + argument + " spoiled: " + what;
        wrong = run_bad(copy, argument, dispatched);
        ++bad;
      }
    }
    ASSERT_EQ(wrong, "") << "FLA_FUZZ_CASE=" << i << " of part " << GetParam() << how << "\n"
                         << describe(call.args());
  }
  if (only < 0 && count >= 100) {
    EXPECT_GT(good, count / 2);
    EXPECT_GT(bad, count / 20);
    const auto taken = static_cast<std::int64_t>(backends().taken - taken_before);
    EXPECT_GT(taken, backends().available ? good / 4 : -1)
        << "hardly anything but the original kernel was tested";
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, KdaFuzz, testing::Range(0, kParts));

}  // namespace
