#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/ops/recurrence/fuzzed_call.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"

namespace {

using fla::RecurrenceResult;
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

template <class Args>
using Function = RecurrenceResult (*)(const Args&);

template <class Args>
std::string run_good(const FuzzedCall<Args>& call, Function<Args> dispatched, Function<Args> original) {
  using Copy = typename FuzzedCall<Args>::Copy;
  const Copy a = call.copy(), b = call.copy();
  const RecurrenceResult answer = dispatched(a.args), expected = original(b.args);
  std::string wrong = fla::conformance::disagreement(answer, expected, a.args, b.args.checkpoints);
  if (a.args.out.defined() && answer.o.data() != a.args.out.data()) wrong += "o is not in `out`; ";
  if (a.args.final_state.defined() && answer.final_state.data() != a.args.final_state.data()) {
    wrong += "final_state is not in its place; ";
  }
  for (const Copy* copy : {&a, &b}) {
    for (const auto& output : copy->outputs) {
      if (!output.intact_around()) wrong += "something was written around an output; ";
    }
  }
  if (!call.inputs_intact()) wrong += "something was written into an input; ";
  return wrong;
}

template <class Args>
std::string run_bad(typename FuzzedCall<Args>::Copy& call, const std::string& argument,
                    Function<Args> dispatched) {
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

/// How many calls backends have taken.
std::uint64_t taken_by_backends() {
  std::uint64_t taken = 0;
  for (const fla::BackendCounters& row : fla::counters()) {
    if (row.backend != "original") taken += row.taken;
  }
  return taken;
}

/// Whether cpu_simd, which takes most of them, is there.
bool has_cpu_simd() {
  for (const fla::OpStatus& op : fla::ops()) {
    for (const fla::BackendStatus& backend : op.backends)
      if (backend.info.name == "cpu_simd") return backend.available && backend.enabled;
  }
  return false;
}

/// What a call was like, and what went wrong with it.
struct Outcome {
  bool good = true;
  std::string wrong{}, how{}, call{};
};

template <class Args>
Outcome run_one(fla::cases::Random& random) {
  using Functions = fla::cases::Functions<Args>;
  const FuzzedCall<Args> call(random);
  const auto way = random.between(0, 2);
  const Function<Args> dispatched = way == 0   ? Functions::door
                                    : way == 1 ? Functions::chunk
                                               : Functions::recurrent;
  const Function<Args> original = way == 1 ? Functions::original_chunk : Functions::original_recurrent;
  Outcome outcome{.call = std::string(Args::kOp.name) + " " + describe(call.args())};
  if (!random.chance(0.7f)) {
    typename FuzzedCall<Args>::Copy copy = call.copy();
    const auto [argument, what] = FuzzedCall<Args>::spoil(copy, random);
    if (!argument.empty()) {
      outcome.good = false;
      outcome.how = " with " + argument + " spoiled: " + what;
      outcome.wrong = run_bad<Args>(copy, argument, dispatched);
      return outcome;
    }
  }
  outcome.wrong = run_good(call, dispatched, original);
  return outcome;
}

class Fuzz : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { fla::set_num_threads(GetParam() % 5 == 4 ? 2 : 1); }
  void TearDown() override { fla::set_num_threads(0); }
};

TEST_P(Fuzz, AgreesWithTheOriginalKernelAndRefusesBadCalls) {
  const std::int64_t count = calls_of_a_part(), only = only_case();
  const std::uint64_t taken_before = taken_by_backends();
  std::int64_t good = 0, bad = 0;
  for (std::int64_t i = only < 0 ? 0 : only; i < (only < 0 ? count : only + 1); ++i) {
    fla::cases::Random random(static_cast<std::uint64_t>(GetParam()) << 32 | static_cast<std::uint64_t>(i));
    const std::string_view op =
        fla::cases::kOpNames[static_cast<std::size_t>(random.between(0, fla::cases::kOpNames.size() - 1))];
    const Outcome outcome =
        fla::cases::with_op(op, [&]<class Args>(std::type_identity<Args>) { return run_one<Args>(random); });
    ++(outcome.good ? good : bad);
    ASSERT_EQ(outcome.wrong, "") << "FLA_FUZZ_CASE=" << i << " of part " << GetParam() << outcome.how << "\n"
                                 << outcome.call;
  }
  if (only < 0 && count >= 100) {
    EXPECT_GT(good, count / 2);
    EXPECT_GT(bad, count / 20);
    const auto taken = static_cast<std::int64_t>(taken_by_backends() - taken_before);
    EXPECT_GT(taken, has_cpu_simd() ? good / 4 : -1) << "hardly anything but the original kernels was tested";
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, Fuzz, testing::Range(0, kParts));

}  // namespace
