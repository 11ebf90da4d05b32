#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/kda/kda.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/child.h"
#include "tools/conformance/conformance.h"

/// The suite itself is tested on backends that each have one thing wrong with them. That it passes one with
/// nothing wrong is in mutation_test.cpp.
namespace {

using fla::KdaArgs;
using fla::KdaResult;
using fla::Verdict;
namespace conformance = fla::conformance;

struct Defect {
  const char* name;
  std::vector<std::string> caught_by;  // at least
  std::function<void(const KdaArgs&, KdaResult&)> after{};
  std::function<Verdict(const KdaArgs&)> verify{};
};

/// Runs the original kernel, then does what it should not.
class Defective final : public fla::KdaBackend {
 public:
  explicit Defective(const Defect& defect) : defect_(defect) {}

  fla::BackendInfo info() const override { return {.name = "defective"}; }
  Verdict chunk_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  KdaResult chunk_kda(const KdaArgs& args) override { return run(args); }
  KdaResult fused_recurrent_kda(const KdaArgs& args) override { return run(args); }

 private:
  Verdict verify(const KdaArgs& args) const { return defect_.verify ? defect_.verify(args) : fla::accept(); }
  KdaResult run(const KdaArgs& args) {
    KdaResult result = fla::original::chunk_kda(args);
    if (defect_.after) defect_.after(args, result);
    return result;
  }

  const Defect& defect_;
};

/// Changes the first element of o, where there is one, by a factor; f32 alone.
void scale_first(KdaResult& result, float factor) {
  if (result.o.numel() > 0 && result.o.dtype() == fla::DType::f32) result.o.as<float>()[0] *= factor;
}

class ConformanceOf : public testing::TestWithParam<Defect> {};

TEST_P(ConformanceOf, IsCaughtByTheSuite) {
  const auto backend = fla::register_backend("kda", std::make_unique<Defective>(GetParam()));
  const conformance::Options options{.golden_dir = FLA_GOLDEN_DIR, .allocations = fla_test::allocations};
  for (const std::string& check : GetParam().caught_by) {
    const conformance::Report report = conformance::run_check("kda", "defective", check, options);
    EXPECT_FALSE(report.ok()) << report.text();
  }
}

std::atomic<int> turn{0};

const Defect kDefects[] = {
    {.name = "AWrongFactor",
     .caught_by = {"golden", "random", "poison_around"},
     .after = [](const KdaArgs&, KdaResult& result) { scale_first(result, 30.0f); }},
    {.name = "ANan",
     .caught_by = {"golden", "random", "leftovers"},
     .after = [](const KdaArgs&,
                 KdaResult& result) { scale_first(result, std::numeric_limits<float>::quiet_NaN()); }},
    {.name = "BitsThatDependOnTheTurn",
     .caught_by = {"same_bits_twice"},
     .after = [](const KdaArgs&,
                 KdaResult& result) { scale_first(result, turn++ % 2 == 0 ? 1.0f : 1.0000002f); }},
    {.name = "BitsThatDependOnTheBatch",
     .caught_by = {"same_bits_in_any_batch"},
     .after = [](const KdaArgs& args,
                 KdaResult& result) { scale_first(result, fla::sizes_of(args).N > 1 ? 1.0f : 1.0000002f); }},
    {.name = "BitsThatDependOnTheThreads",
     .caught_by = {"same_bits_with_any_threads"},
     .after = [](const KdaArgs&,
                 KdaResult& result) { scale_first(result, fla::num_threads() > 2 ? 1.0f : 1.0000002f); }},
    {.name = "AWriteBeforeTheOutput",
     .caught_by = {"poison_around"},
     .after =
         [](const KdaArgs& args, KdaResult&) {
           if (args.out.defined()) args.out.as<char>()[args.out.extent().begin - 4] = 1;
         }},
    {.name = "AWriteIntoAnInput",
     .caught_by = {"poison_around"},
     .after =
         [](const KdaArgs& args, KdaResult&) {
           if (args.q.numel() > 0) args.q.as<char>()[0] = static_cast<char>(args.q.as<char>()[0] + 1);
         }},
    {.name = "AnOutputBehindTheLastSequence",
     .caught_by = {"padding"},
     .after =
         [](const KdaArgs& args, KdaResult& result) {
           if (!args.cu_seqlens.defined()) return;
           const std::int64_t T = fla::sizes_of(args).T;
           if (fla::tokens_of(args, fla::sizes_of(args).N - 1).end < T)
             result.o.view().slice(1, T - 1, 1).as<char>()[0] = 1;
         }},
    {.name = "AStateThatChangesWithoutAToken",
     .caught_by = {"empty_calls"},
     .after =
         [](const KdaArgs& args, KdaResult& result) {
           const bool f32 = result.final_state.defined() && result.final_state.dtype() == fla::DType::f32;
           if (f32 && fla::sizes_of(args).T == 0 && result.final_state.numel() > 0)
             result.final_state.as<float>()[0] += 1;
         }},
    {.name = "ASlotThatIsWrittenForNobody",
     .caught_by = {"state_pool_by_index"},
     .after =
         [](const KdaArgs& args, KdaResult& result) {
           if (!args.state_indices.defined() || !result.final_state.defined()) return;
           std::vector<bool> free(static_cast<std::size_t>(result.final_state.size(0)), true);
           for (std::int64_t n = 0; n < args.state_indices.size(0); ++n) {
             const std::int64_t slot = fla::slots_of(args, n).write;
             if (slot >= 0) free[static_cast<std::size_t>(slot)] = false;
           }
           for (std::size_t slot = 0; slot < free.size(); ++slot) {
             if (free[slot])
               result.final_state.view().slice(0, static_cast<std::int64_t>(slot), 1).as<char>()[0] = 0;
           }
         }},
    {.name = "AnOutputOfASkippedSequence",
     .caught_by = {"state_pool_by_index"},
     .after =
         [](const KdaArgs& args, KdaResult& result) {
           for (std::int64_t n = 0; args.state_indices.defined() && n < args.state_indices.size(0); ++n) {
             const fla::Sequence tokens = fla::tokens_of(args, n);
             if (fla::slots_of(args, n).read < 0 && tokens.end > tokens.begin)
               result.o.view().slice(0, tokens.batch, 1).slice(1, tokens.begin, 1).as<char>()[1] = 1;
           }
         }},
    {.name = "ASmallNumberThatIsLost",
     .caught_by = {"ranges"},
     .after =
         [](const KdaArgs&, KdaResult& result) {
           if (result.o.dtype() != fla::DType::f32 || !result.o.view().is_contiguous()) return;
           for (std::int64_t i = 0; i < result.o.numel(); ++i) {
             if (std::abs(result.o.as<float>()[i]) < 6e-8f) result.o.as<float>()[i] = 0;
           }
         }},
    {.name = "ANanThatReachesEarlierTokens",
     .caught_by = {"causality"},
     .after =
         [](const KdaArgs& args, KdaResult& result) {
           const fla::RecurrenceSizes size = fla::sizes_of(args);
           if (result.o.dtype() != fla::DType::f32 || size.T < 2 || args.out.defined()) return;
           const std::int64_t row = size.HV * size.V;
           const float last = result.o.as<float>()[size.B * size.T * row - 1];
           if (!std::isfinite(last)) result.o.as<float>()[(size.B - 1) * size.T * row + row - 1] = last;
         }},
    {.name = "AVerifierThatChangesItsMind",
     .caught_by = {"verifier_is_pure"},
     .verify = [](const KdaArgs&) { return turn++ % 2 == 0 ? fla::accept() : fla::refuse("not now"); }},
    {.name = "AVerifierThatAllocates",
     .caught_by = {"verifier_is_pure"},
     .verify =
         [](const KdaArgs& args) {
           const auto words =
               std::make_unique<std::string>(static_cast<std::size_t>(args.q.size(3)) + 40, 'x');
           return words->empty() ? fla::refuse("never") : fla::accept();
         }},
    {.name = "AVerifierThatThrows",
     .caught_by = {"refusals_have_reasons"},
     .verify =
         [](const KdaArgs& args) {
           if (args.q.size(3) == 100) throw std::runtime_error("K is odd");
           return fla::accept();
         }},
    {.name = "ARefusalWithoutWords",
     .caught_by = {"refusals_have_reasons"},
     .verify = [](const KdaArgs& args) { return args.q.size(3) == 100 ? fla::refuse("") : fla::accept(); }},
    {.name = "ABackendThatTakesNothing",
     .caught_by = {"random", "golden"},
     .verify = [](const KdaArgs&) { return fla::refuse("takes nothing"); }},
};

INSTANTIATE_TEST_SUITE_P(Defects, ConformanceOf, testing::ValuesIn(kDefects),
                         [](const auto& test) { return test.param.name; });

TEST(ConformanceOfLongCalls, AreMadeOfABackendThatTakesNoOthers) {
  const Defect right{.name = "right", .caught_by = {}, .verify = [](const KdaArgs& args) {
                       const std::int64_t K = args.q.size(3), V = args.v.size(3);
                       return args.q.size(1) < 2048 || K > 40 || V > 40 ? fla::refuse("takes long calls")
                                                                        : fla::accept();
                     }};
  const auto backend = fla::register_backend("kda", std::make_unique<Defective>(right));
  const conformance::Report report = conformance::run_check("kda", "defective", "leftovers", {});
  EXPECT_EQ(report.failures, std::vector<std::string>{});
  EXPECT_GT(report.calls, 0);
  EXPECT_EQ(conformance::run_check("kda", "defective", "golden", {.golden_dir = FLA_GOLDEN_DIR}).skipped,
            "takes long calls alone, of which there are no golden cases");
}

/// Has gradients, of no call.
class TakesNoGradients final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "reluctant"}; }
  Verdict chunk_kda_backward_verifier(const fla::KdaBackwardArgs&) const override {
    return fla::refuse("takes nothing");
  }
  fla::RecurrenceGradients chunk_kda_backward(const fla::KdaBackwardArgs& args) override {
    return fla::original::chunk_kda_backward(args);
  }
};

TEST(ConformanceOfGradients, CatchesABackendThatTakesNoCallOnAnyDevice) {
  const auto backend = fla::register_backend("kda", std::make_unique<TakesNoGradients>());
  const conformance::Report report = conformance::run_check("kda", "reluctant", "gradients", {});
  EXPECT_EQ(report.skipped, "");
  EXPECT_THAT(report.failures, testing::ElementsAre(testing::MatchesRegex("took none of [0-9]+ calls")));
}

/// Has gradients alone.
class GradientsAlone final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "gradients_alone"}; }
  fla::RecurrenceGradients chunk_kda_backward(const fla::KdaBackwardArgs& args) override {
    return fla::original::chunk_kda_backward(args);
  }
};

TEST(ConformanceOfGradients, ABackendThatHasNothingElseIsNotHeldToCallsOfOtherFunctions) {
  const auto backend = fla::register_backend("kda", std::make_unique<GradientsAlone>());
  for (const conformance::Report& report : conformance::run_conformance("kda", "gradients_alone", {})) {
    const bool checks_nothing = report.check == "refusals_have_reasons" ||
                                report.check == "verifier_is_pure" || report.check == "checkpoints" ||
                                report.check == "kept_states" || report.check == "rings" ||
                                report.check == "summaries" || report.check == "golden";
    EXPECT_EQ(report.failures, std::vector<std::string>{}) << report.check;
    if (report.check == "gradients") {
      EXPECT_GT(report.calls, 0);
    } else if (!checks_nothing) {
      EXPECT_EQ(report.skipped, "has no chunk_kda and no fused_recurrent_kda") << report.check;
    }
  }
}

/// Has summaries, with a wrong P where it is asked to.
class SummariesAlone final : public fla::KdaBackend {
 public:
  explicit SummariesAlone(bool wrong) : wrong_(wrong) {}
  fla::BackendInfo info() const override { return {.name = "summaries_alone"}; }
  fla::RecurrenceSummary kda_summary(const fla::KdaSummaryArgs& args) override {
    fla::RecurrenceSummary summary = fla::original::kda_summary(args);
    if (wrong_ && summary.P.defined()) summary.P.as<float>()[0] += 1;
    return summary;
  }

 private:
  bool wrong_;
};

TEST(ConformanceOfSummaries, CatchesAWrongTransition) {
  for (const bool wrong : {false, true}) {
    const auto backend = fla::register_backend("kda", std::make_unique<SummariesAlone>(wrong));
    const conformance::Report report = conformance::run_check("kda", "summaries_alone", "summaries", {});
    EXPECT_EQ(report.ok(), !wrong) << report.text();
    EXPECT_GT(report.calls, 0);
  }
}

conformance::Report random_check_of(const Defect& defect) {
  const auto backend = fla::register_backend("kda", std::make_unique<Defective>(defect));
  return conformance::run_check("kda", "defective", "random", {});
}

TEST(ConformanceChild, ACrashIsAFailureThatNamesTheCall) {
  const Defect aborts{.name = "", .caught_by = {}, .after = [](const KdaArgs&, KdaResult&) { std::abort(); }};
  const conformance::Report report = random_check_of(aborts);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0],
              testing::StartsWith("was killed by signal 6 (Aborted), in chunk_kda [q=f32["));
}

TEST(ConformanceChild, EndingTheProcessIsAFailure) {
  const Defect ends{.name = "", .caught_by = {}, .after = [](const KdaArgs&, KdaResult&) { ::_exit(0); }};
  const conformance::Report report = random_check_of(ends);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0],
              testing::StartsWith("ended the process with exit code 0, in chunk_kda [q=f32["));
}

TEST(ConformanceChild, DamagedMemoryIsAFailureAndTheCallersIsWhole) {
  // Behind the result of the kernel, where the allocator keeps its own.
  const Defect damages{.name = "", .caught_by = {}, .after = [](const KdaArgs&, KdaResult&) {
                         auto* const memory = static_cast<volatile char*>(std::malloc(24));
                         for (int i = -16; i < 64; ++i) memory[i] = 0x7f;
                         std::free(const_cast<char*>(memory));
                       }};
  EXPECT_FALSE(random_check_of(damages).ok());
}

TEST(ConformanceChild, OneThatHangsIsEndedAndToldOf) {
  const conformance::ChildOutcome outcome = conformance::in_child(
      [] {
        conformance::note_progress("a call");
        for (;;) ::pause();
        return std::string();
      },
      1);
  EXPECT_EQ(outcome.death, "did nothing for 1 s");
  EXPECT_EQ(outcome.doing, "a call");
}

TEST(ConformanceReport, WhatIsNotShownFailsUnlessItIsAllowed) {
  conformance::Options no_golden_cases{};
  const conformance::Report report = conformance::run_check("kda", "original", "golden", no_golden_cases);
  EXPECT_THAT(report.not_shown, testing::ElementsAre("no golden cases were given"));
  EXPECT_THAT(report.text(), testing::EndsWith("  not shown: no golden cases were given\n"));
  EXPECT_FALSE(report.ok());
  no_golden_cases.allow_not_shown = true;
  EXPECT_TRUE(conformance::run_check("kda", "original", "golden", no_golden_cases).ok());
}

TEST(ConformanceReport, ListsWhatTheBackendRefuses) {
  const Defect narrow{.name = "", .caught_by = {}, .verify = [](const KdaArgs& args) {
                        return args.beta.dtype() == fla::DType::bf16 ? fla::refuse("requires another beta")
                                                                     : fla::accept();
                      }};
  const auto backend = fla::register_backend("kda", std::make_unique<Defective>(narrow));
  const conformance::Report report = conformance::run_check("kda", "defective", "arguments", {});
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_THAT(report.refusals,
              testing::ElementsAre("chunk_kda: beta: bf16: requires another beta",
                                   "fused_recurrent_kda: beta: bf16: requires another beta"));
}

}  // namespace
