#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "fla/core/copy_arguments.h"
#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/ops/recurrence/fuzzed_call.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/ring_walk.h"

namespace {

using fla::RecurrenceResult;
using fla::conformance::describe;
using fla_test::FuzzedCall;

constexpr int kParts = 10;  // CTest runs them side by side
constexpr double kSummaryTolerance = 1e-4, kRingTolerance = 1e-4;

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

/// Whether what the tokens of a call do to a state, summed up and applied by merge, is what they do one by
/// one. Nothing of a call that has no such state.
template <class Args>
std::optional<std::string> run_summary(fla::cases::Random& random) {
  using Functions = fla::cases::Functions<Args>;
  const FuzzedCall<Args> call(random);
  Args args = call.args();
  if (fla::recurrence::arguments_of(args).normalize || args.state_indices.defined()) return std::nullopt;
  const auto [B, T, H, HV, K, V, N] = fla::sizes_of(args);
  fla::Tensor state =
      fla::Tensor::empty({N, HV, args.state_v_first ? V : K, args.state_v_first ? K : V}, fla::DType::f32);
  for (std::int64_t i = 0; i < state.numel(); ++i) state.as<float>()[i] = 2 * random.uniform() - 1;
  args.out = args.final_state = args.checkpoints = {};
  args.checkpoint_every = {};
  auto summed = fla::arguments_like<typename Args::Summary>(args);
  summed.initial_state = {};
  summed.output_P = true;
  args.initial_state = state;
  args.output_final_state = true;
  const RecurrenceResult expected = Functions::original_recurrent(args);
  const fla::RecurrenceSummary summary =
      random.chance(0.5f) ? Functions::summary(summed) : Functions::original_summary(summed);
  const auto one_of = [](const fla::Tensor& tensor) {
    std::vector<std::int64_t> shape{1};
    shape.insert(shape.end(), tensor.shape().begin(), tensor.shape().end());
    return fla::TensorView(tensor.data(), tensor.dtype(), shape);
  };
  const fla::MergeResult merged = fla::merge({.R = one_of(summary.R),
                                              .P = one_of(summary.P),
                                              .initial_state = state,
                                              .state_v_first = args.state_v_first});
  const double error = fla::cases::relative_error(merged.final_state, expected.final_state);
  const std::string of = " of " + std::string(Args::kOp.name) + " " + describe(args);
  if (!call.inputs_intact()) return "something was written into an input" + of;
  if (error <= kSummaryTolerance) return "";
  return "the state is off by " + std::to_string(error) + of;
}

/// What is wrong with random steps over rings beside plain ones.
template <class Args>
std::string run_rings(fla::cases::Random& random) {
  using Functions = fla::cases::Functions<Args>;
  const std::int64_t L = random.between(8, 32), T = random.between(1, L / 2);
  fla::cases::CaseSpec<Args> calls{.B = random.between(1, 4),
                                   .T = random.between(T, 40),
                                   .H = random.between(1, 2),
                                   .K = random.between(1, 40),
                                   .V = random.between(1, 40)};
  calls.HV = calls.H * random.between(1, 2);
  calls.data = fla::cases::kAllDataKinds[static_cast<std::size_t>(
      random.between(0, std::size(fla::cases::kAllDataKinds) - 1))];
  calls.options.state_v_first = random.chance(0.5f);
  calls.seed = static_cast<std::uint64_t>(random.between(0, 1'000'000));
  const fla::conformance::WalkSpec walk{.L = L,
                                        .T = T,
                                        .steps = 2 * L + 10,
                                        .strided = random.chance(0.5f),
                                        .indices = random.chance(0.5f) ? fla::DType::i32 : fla::DType::i64,
                                        .seed = calls.seed + 1};
  const bool original = random.chance(0.3f);
  const std::string wrong =
      fla::conformance::RingWalk<Args>(calls, walk)
          .run(original ? Functions::original_replay : Functions::replay,
               original ? Functions::original_fold : Functions::fold, kRingTolerance, kRingTolerance);
  if (wrong.empty()) return "";
  return wrong + " of " + std::string(Args::kOp.name) + " with L=" + std::to_string(L) +
         " T=" + std::to_string(T) + ", " + std::string(fla::cases::name_of(calls.data)) + " data";
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

/// body(case number, random numbers, the arguments' type) for a share of the part's calls, of any op.
template <class Body>
void for_each_case(int part, std::int64_t share, Body&& body) {
  const std::int64_t count = std::max<std::int64_t>(calls_of_a_part() / share, 1), only = only_case();
  for (std::int64_t i = only < 0 ? 0 : only; i < (only < 0 ? count : only + 1); ++i) {
    fla::cases::Random random(static_cast<std::uint64_t>(part) << 32 | static_cast<std::uint64_t>(i));
    const std::string_view op =
        fla::cases::kOpNames[static_cast<std::size_t>(random.between(0, fla::cases::kOpNames.size() - 1))];
    fla::cases::with_op(op, [&](auto args_type) { body(i, random, args_type); });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(Fuzz, SummariesMakeOfAStateWhatItsTokensDo) {
  std::int64_t made = 0;
  const auto run = [&]<class Args>(std::int64_t i, fla::cases::Random& random, std::type_identity<Args>) {
    const std::optional<std::string> wrong = run_summary<Args>(random);
    if (!wrong) return;
    ++made;
    ASSERT_EQ(*wrong, "") << "FLA_FUZZ_CASE=" << i << " of part " << GetParam();
  };
  for_each_case(GetParam(), 10, run);
  EXPECT_TRUE(made > 10 || only_case() >= 0 || calls_of_a_part() < 1000) << made;
}

TEST_P(Fuzz, StepsOverRingsHaveTheOutputsOfPlainSteps) {
  const auto run = [&]<class Args>(std::int64_t i, fla::cases::Random& random, std::type_identity<Args>) {
    ASSERT_EQ(run_rings<Args>(random), "") << "FLA_FUZZ_CASE=" << i << " of part " << GetParam();
  };
  for_each_case(GetParam(), 200, run);
}

INSTANTIATE_TEST_SUITE_P(Parts, Fuzz, testing::Range(0, kParts));

}  // namespace
