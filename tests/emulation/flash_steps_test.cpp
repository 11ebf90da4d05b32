#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/half.h"
#include "tests/core/child_process.h"
#include "tests/emulation/flash_forward.h"

/// Planted faults: every barrier, fence and wait that the kernels take is left out once, and every wait for
/// an mbarrier is for the wrong phase once. Something must be found then, or the result must be another one.
/// What can be left out without a trace is listed here, with the reason; a step more than that is either not
/// needed or not watched, and somebody should know which.
namespace fla::emulation {
namespace {

using cases::DataKind;

struct Harmless {
  const char* instruction;
  const char* file;
  int steps;  ///< at most
  const char* why;
};

constexpr int kUnseen = 0, kSeen = 1;  // exit codes of a run with a fault

/// Only a run that came to its end says whether the fault is seen; one that the watchdog or a crash ended
/// does not.
std::optional<bool> seen_by(const std::string& outcome) {
  if (outcome == "exit " + std::to_string(kSeen)) return true;
  if (outcome == "exit " + std::to_string(kUnseen)) return false;
  return std::nullopt;
}

bool is_same(const ForwardResult& a, const ForwardResult& b) {
  return a.findings.empty() && b.findings.empty() && a.o == b.o &&
         std::memcmp(a.final_state.data(), b.final_state.data(), b.final_state.size() * sizeof(float)) == 0;
}

/// A fault and what became of the process that ran with it.
struct Outcome {
  Step step;
  Planted fault;
  std::string outcome;
};

/// One run, which at every step of `steps` that it comes to goes on in other processes too, with the faults
/// that can be planted there: up to its first step a run with a fault is this one. In processes of their own,
/// because a kernel that read garbage may write anywhere, or never end.
std::vector<Outcome> outcomes_of_faults(const Forward& forward, const std::set<Step>& steps,
                                        const ForwardResult& whole) {
  std::vector<Outcome> outcomes;
  std::set<Step> taken;
  std::optional<std::pair<Step, Planted>> planted;  // in a process with a fault
  const auto plant = [&](const Step& step) {
    if (planted) return planted->first == step ? planted->second : Planted::nothing;
    if (!steps.contains(step) || !taken.insert(step).second) return Planted::nothing;
    for (const Planted fault : {Planted::left_out, Planted::wrong_parity}) {
      if (fault == Planted::wrong_parity && step.instruction != "mbar_wait") continue;
      const pid_t child = fla_test::fork_with_watchdog();
      if (child == 0) {
        planted = {step, fault};
        return fault;
      }
      outcomes.push_back({step, fault, fla_test::outcome_of(child)});
    }
    return Planted::nothing;
  };
  bool same = false;
  try {
    same = is_same(run(forward, {.plant = plant, .stop_at_first = true}), whole);
  } catch (const std::exception&) {
    if (planted) ::_exit(99);
    throw;
  }
  if (planted) ::_exit(same ? kUnseen : kSeen);
  EXPECT_TRUE(same) << "the run without a fault";
  EXPECT_EQ(taken, steps);
  return outcomes;
}

/// Steps of the kernels that `covered` takes too are left to its own test. `files`: of these alone, where
/// some are named.
void check(const Forward& forward, const std::vector<Harmless>& harmless,
           const std::optional<Forward>& covered = std::nullopt, const std::set<std::string>& files = {}) {
  const ForwardResult whole = run(forward);
  ASSERT_EQ(text_of(whole.findings), "");
  const std::set<Step> known = covered ? run(*covered).steps : std::set<Step>();
  std::set<Step> steps;
  for (const Step& step : whole.steps)
    if (!known.contains(step) && (files.empty() || files.contains(step.file))) steps.insert(step);
  std::map<std::pair<std::string, std::string>, std::vector<int>> unseen;  // lines
  for (const auto& [step, fault, outcome] : outcomes_of_faults(forward, steps, whole)) {
    const std::optional<bool> seen = seen_by(outcome);
    EXPECT_TRUE(seen.has_value()) << step.instruction << " in " << step.file << ", line " << step.line
                                  << (fault == Planted::left_out ? ", left out: "
                                                                 : ", for the wrong parity: ")
                                  << "expected a run that ends, got " << outcome;
    if (fault == Planted::left_out) {
      if (!seen.value_or(false)) unseen[{step.instruction, step.file}].push_back(step.line);
    } else {
      EXPECT_TRUE(seen.value_or(false))
          << "a wait for the wrong parity leaves no trace in " << step.file << ", line " << step.line;
    }
  }
  for (const auto& [key, lines] : unseen) {
    int expected = 0;
    for (const Harmless& one : harmless)
      if (key.first == one.instruction && key.second == one.file) expected = one.steps;
    std::string at;
    for (const int line : lines) at += " " + std::to_string(line);
    EXPECT_LE(static_cast<int>(lines.size()), expected)
        << key.first << " can be left out without a trace in " << key.second << ", lines" << at;
  }
}

TEST(FlashKdaSteps, ARunThatDoesNotEndShowsNothing) {
  EXPECT_EQ(seen_by("exit 1"), true);
  EXPECT_EQ(seen_by("exit 0"), false);
  EXPECT_EQ(seen_by("signal " + std::to_string(SIGALRM)), std::nullopt);
  EXPECT_EQ(seen_by("signal " + std::to_string(SIGSEGV)), std::nullopt);
  EXPECT_EQ(seen_by("exit 99"), std::nullopt);
}

Forward inside(std::int64_t T) {
  Forward forward;
  forward.spec = {.T = T, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16};
  KdaArgs& options = forward.spec.options;
  options.output_final_state = true;
  options.use_gate_in_kernel = options.use_qk_l2norm_in_kernel = options.use_beta_sigmoid_in_kernel = true;
  options.lower_bound = -5.0f;
  return forward;
}

constexpr const char* kEnd = "the end of a block completes what it stored";
constexpr const char* kTaken = "bulk_wait takes this step too, for the same packet";
constexpr const char* kLanes =
    "brings lanes together for instructions that want them so; here lanes go their own ways";

/// Two items of one stream, each with more chunks than there are stages.
Forward passed() {
  Forward forward = inside(232);
  forward.spec.H = 2;
  forward.streams = 1;
  forward.depth = 3;
  return forward;
}

TEST(FlashKdaSteps, AreAllNeededWhenPacketsArePassedOn) {
  check(passed(), {{"warp_sync", "measure.cuh", 2, kLanes},
                   {"warp_sync", "role_scale.cuh", 1, kLanes},
                   {"warp_sync", "inputs.cuh", 2, kLanes},
                   {"warp_sync", "role_fold.cuh", 3, kLanes},
                   {"warp_sync", "role_carry.cuh", 1, kLanes},
                   {"warp_sync", "role_ahead.cuh", 1, kLanes},
                   {"warp_sync", "state.cuh", 9, kLanes},
                   {"barrier", "state.cuh", 1, "only where first and last states have other axes"},
                   {"fence_async", "role_fold.cuh", 1, "the fence before the pairs would do"},
                   {"bulk_wait", "state.cuh", 2, kEnd},
                   {"bulk_wait_read", "state.cuh", 2, kEnd},
                   {"bulk_wait_read", "role_carry.cuh", 1, kTaken},
                   {"barrier", "forward.cuh", 1, "before the end: for compute-sanitizer's eyes"},
                   {"warp_sync", "forward.cuh", 1, kLanes},
                   {"fence_async", "prep.cuh", 1, "after mbar_init: the loads' own fences follow"},
                   {"fence_async", "forward.cuh", 1, "after mbar_init: the loads' own fences follow"},
                   {"wgmma_fence", "state.cuh", 1, "registers written between two wgmma are not seen here"},
                   {"wgmma_commit", "state.cuh", 1, "the products for S and for O are waited for together"}});
}

/// Two CTAs for each chain: prep waits for both. In them nothing is another step.
TEST(FlashKdaSteps, AreAllNeededWhereTwoShareAChain) {
  Forward forward = passed();
  forward.split = true;
  check(forward,
        {{"bulk_wait_read", "role_carry.cuh", 1, kTaken}, {"warp_sync", "role_carry.cuh", 1, kLanes}},
        std::nullopt, {"role_carry.cuh"});
}

/// The additive rule, whose chain and whose prep are others.
Forward additive(Forward forward, GateKind gates) {
  forward.spec.options = {.output_final_state = true};
  forward.spec.dtype = DType::bf16;
  forward.spec.data = DataKind::slow;
  forward.rule = Rule::additive;
  forward.gates = gates;
  return forward;
}

TEST(FlashKdaSteps, AreAllNeededWithoutADeltaRule) {
  check(additive(passed(), GateKind::channel),
        {{"warp_sync", "measure.cuh", 2, kLanes},
         {"warp_sync", "role_scale.cuh", 1, kLanes},
         {"warp_sync", "inputs.cuh", 2, kLanes},
         {"warp_sync", "role_pair.cuh", 3, kLanes},
         {"warp_sync", "role_carry.cuh", 1, kLanes},
         {"fence_async", "role_pair.cuh", 1, "the fence before the pairs would do, but for f16"},
         {"warp_sync", "state.cuh", 9, kLanes},
         {"barrier", "state.cuh", 2, "the warpgroups take turns for the time's sake alone"},
         {"bulk_wait", "state.cuh", 2, kEnd},
         {"bulk_wait_read", "state.cuh", 2, kEnd},
         {"bulk_wait_read", "role_carry.cuh", 1, kTaken}},
        passed());
}

TEST(FlashKdaSteps, AreAllNeededWithoutADeltaRuleForOneGatePerToken) {
  const Forward channels = additive(passed(), GateKind::channel);
  check(additive(passed(), GateKind::token),
        {{"warp_sync", "inputs.cuh", 2, kLanes}, {"warp_sync", "measure.cuh", 2, kLanes}}, channels);
}

TEST(FlashKdaSteps, AreAllNeededWhenPacketsAreKept) { check(inside(256), {}, passed()); }

TEST(FlashKdaSteps, AreAllNeededInTails) {
  Forward forward = inside(0);
  forward.spec.lengths = {70, 3, 130};
  forward.beyond = 2;
  check(forward, {}, passed());
}

TEST(FlashKdaSteps, AreAllNeededOnTheExactPath) {
  Forward forward = inside(128);
  forward.spec.options.lower_bound.reset();
  forward.spec.data = DataKind::resets;
  check(forward,
        {{"barrier", "exact.cuh", 1, "before the task is handed over, which is a barrier too"},
         {"warp_sync", "exact.cuh", 1, kLanes}},
        passed());
}

/// The steps that bring inputs, and those that wait for them.
TEST(FlashKdaSteps, AreAllNeededForOneGatePerToken) {
  Forward forward = passed();
  forward.gates = GateKind::token;
  check(forward, {{"warp_sync", "inputs.cuh", 2, kLanes}, {"warp_sync", "measure.cuh", 2, kLanes}},
        std::nullopt, {"inputs.cuh", "measure.cuh"});
}

/// Every chunk with magnitudes out of the ordinary, the second with a number that is not finite.
TEST(FlashKdaSteps, AreAllNeededWithOddMagnitudes) {
  Forward forward = inside(192);
  forward.spec.options.use_qk_l2norm_in_kernel = false;
  forward.change = [](const KdaArgs& args) {
    for (std::int64_t i = 0; i < args.k.numel(); ++i)
      args.k.as<bf16>()[i] = from_float<bf16>(0x1p-9f * to_float(args.k.as<bf16>()[i]));
    args.v.as<bf16>()[70 * 128] = from_float<bf16>(std::numeric_limits<float>::infinity());
  };
  check(forward, {}, passed());
}

constexpr const char* kRepeated =
    "what is not there yet is not finite, and then the warp does the chunk again by itself";
const std::vector<Harmless> kInSegments{
    {"warp_sync", "segment.cuh", 2, kLanes},
    {"warp_sync", "combine.cuh", 1, kLanes},
    {"wgmma_commit", "segment.cuh", 1, kRepeated},
    {"wgmma_wait", "segment.cuh", 1, kRepeated},
    {"mbar_wait", "segment.cuh", 1, "the warp that looked has waited for the same copies before it told"},
    {"mbar_wait", "combine.cuh", 1, "a block must not end before copies to it, which nobody watches"}};

/// One column of V out of the ordinary from the second chunk on: the warp that has it takes another path than
/// the others, for longer than there are stages.
TEST(FlashKdaSteps, AreAllNeededWithOddValues) {
  Forward forward = inside(320);
  forward.change = [](const KdaArgs& args) {
    for (std::int64_t token = 70; token < args.v.size(1); ++token) {
      bf16& value = args.v.as<bf16>()[token * 128 + 21];
      value = from_float<bf16>(0x1p40f * to_float(value));
    }
  };
  check(forward, {}, passed());
  Forward cut = forward;
  cut.spec.T = 960;
  cut.spec.options.lower_bound.reset();
  cut.spec.data = DataKind::slow;  // whose past counts
  cut.segments = 3;
  check(cut, kInSegments, forward);
}

/// Long segments fill their stages again and again, and many of them let combine fill its own again too.
TEST(FlashKdaSteps, AreAllNeededInSegments) {
  Forward two = inside(640);
  two.spec.options.lower_bound.reset();
  two.spec.data = DataKind::slow;
  two.segments = 2;
  check(two, kInSegments, passed());
  Forward seven = two;
  seven.spec.T = 832;
  seven.segments = 7;
  check(seven, kInSegments, two);
}

TEST(FlashKdaSteps, AreAllNeededInSegmentsWithoutADeltaRule) {
  Forward three = additive(inside(1300), GateKind::channel);
  three.segments = 3;
  check(three, kInSegments, additive(passed(), GateKind::channel));
}

/// With one of the last chunks that counts alone, and with two.
TEST(FlashKdaSteps, AreAllNeededInSegmentsThatForget) {
  for (const float decay : {-0.5f, -0.25f}) {
    Forward forward = inside(384);
    forward.spec.options.lower_bound.reset();
    forward.spec.options.use_gate_in_kernel = false;
    forward.spec.gate_dtype = DType::f32;
    forward.change = [decay](const KdaArgs& args) { std::fill_n(args.g.as<float>(), args.g.numel(), decay); };
    forward.segments = 3;
    Forward slow = forward;
    slow.change = [](const KdaArgs& args) { std::fill_n(args.g.as<float>(), args.g.numel(), -0.01f); };
    check(forward, kInSegments, slow);
  }
}

}  // namespace
}  // namespace fla::emulation
