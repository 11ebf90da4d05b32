#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/choice/function_backend.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/common/stages.h"
#include "tests/ops/kda/every_way.h"
#include "tests/ops/kda/pool_run.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::bytes_of;
using fla::conformance::LaidOut;
using fla_test::expect_bits_of_sequences_alone;
using fla_test::kEveryWay;

/// Every function alone: the front door may send a batch to another one than its sequences.
constexpr auto kEveryFunction = std::span(kEveryWay).first(4);

/// Steps of a decoder, packed sequences of any length, batches; small heads and usual ones.
std::vector<KdaSpec> pooled_specs() {
  const std::vector<std::int64_t> steps(9, 1);
  return {
      {.B = 9, .T = 1, .H = 1, .HV = 2, .K = 16, .V = 24, .pool = 20},
      {.H = 2, .K = 32, .V = 32, .lengths = steps, .pool = 30},
      {.H = 1, .K = 12, .V = 20, .lengths = {3, 0, 17, 1, 33, 0, 8, 70}, .pool = 17},
      {.B = 5, .T = 20, .H = 1, .K = 16, .V = 8, .dtype = DType::bf16, .pool = 10},
      {.B = 4, .T = 1, .H = 1, .K = 128, .V = 128, .pool = 9},
      {.H = 1, .K = 128, .V = 64, .lengths = {40, 1, 9, 16, 5}, .dtype = DType::f16, .pool = 12},
      {.B = 6, .T = 3, .H = 1, .K = 1, .V = 3, .pool = 13},
  };
}

template <class Body>
void for_each_pooled_case(Body&& body) {
  std::uint64_t seed = 1;
  for (KdaSpec spec : pooled_specs()) {
    for (const bool v_first : {false, true}) {
      for (const bool write_indices : {false, true}) {
        spec.options.state_v_first = v_first;
        spec.write_indices = write_indices;
        spec.index_dtype = seed % 2 == 0 ? DType::i32 : DType::i64;
        spec.state_dtype = seed % 5 == 0 ? DType::bf16 : DType::f32;
        spec.initial_state = seed % 4 != 0;
        spec.seed = seed++;
        body(make_kda_case(spec).args);
      }
    }
  }
}

TEST(KdaPool, SequencesHaveTheBitsThatTheyHaveAlone) {
  for_each_pooled_case([](const KdaArgs& args) {
    for (const auto& [name, run] : kEveryFunction) {
      SCOPED_TRACE(name);
      expect_bits_of_sequences_alone(run, args, false);
      if (args.initial_state.defined()) expect_bits_of_sequences_alone(run, args, true);
    }
  });
}

TEST(KdaPool, SequencesHaveTheSameBitsOnManyThreads) {
  fla::set_num_threads(8);  // more than some calls have heads
  for_each_pooled_case([](const KdaArgs& args) {
    for (const auto& [name, run] : kEveryFunction) {
      SCOPED_TRACE(name);
      expect_bits_of_sequences_alone(run, args, args.initial_state.defined());
    }
  });
  fla::set_num_threads(0);
}

TEST(KdaPool, AgreesWithTheReference) {
  for_each_pooled_case([](const KdaArgs& args) { fla_test::expect_agreement(args); });
}

TEST(KdaPool, StatesThatAreOnlyReadStayAsTheyAre) {
  for (KdaSpec spec : pooled_specs()) {
    spec.options.output_final_state = false;
    const KdaCase call = make_kda_case(spec);
    for (const auto& [name, run] : kEveryFunction) {
      SCOPED_TRACE(name);
      expect_bits_of_sequences_alone(run, call.args, false);
      EXPECT_FALSE(run(call.args).final_state.defined());
    }
  }
}

/// Two sequences of one token and one head with K = V = 1, where o is 10 q S.
struct ByHand {
  std::array<float, 2> q{2, 2}, k{3, 3}, v{5, 5}, g{-0.69314718f, -0.69314718f}, beta{0.25f, 0.25f};
  std::array<float, 4> pool{8, 100, 16, 200};
  std::array<std::int32_t, 2> read{2, 0}, write{1, -1};
  KdaArgs args{.q = {q.data(), DType::f32, {2, 1, 1, 1}},
               .k = {k.data(), DType::f32, {2, 1, 1, 1}},
               .v = {v.data(), DType::f32, {2, 1, 1, 1}},
               .g = {g.data(), DType::f32, {2, 1, 1, 1}},
               .beta = {beta.data(), DType::f32, {2, 1, 1}},
               .scale = 10.0f,
               .initial_state = {pool.data(), DType::f32, {4, 1, 1, 1}},
               .state_indices = {read.data(), DType::i32, {2}},
               .state_write_indices = {write.data(), DType::i32, {2}},
               .final_state = {pool.data(), DType::f32, {4, 1, 1, 1}}};
};

// From 8: S = 4, u = (5 - 3 * 4) / 4 = -1.75, S = 4 - 3 * 1.75 = -1.25. From 16: S = 8, u = -4.75,
// S = -6.25.
TEST(KdaPool, DoesAStepAsWrittenByHand) {
  for (const auto& [name, run] : kEveryWay) {
    ByHand call;
    const KdaResult result = run(call.args);
    EXPECT_NEAR(result.o.as<float>()[0], 20 * -6.25, 1e-4) << name;
    EXPECT_NEAR(result.o.as<float>()[1], 20 * -1.25, 1e-4) << name;
    EXPECT_EQ(call.pool[0], 8) << name << ": written nowhere";
    EXPECT_NEAR(call.pool[1], -6.25, 1e-5) << name << ": a copy on write";
    EXPECT_EQ(call.pool[2], 16) << name << ": read only";
    EXPECT_EQ(call.pool[3], 200) << name << ": nobody's";
  }
}

TEST(KdaPool, SkippedSequencesHaveZerosForOutputs) {
  for (const auto& [name, run] : kEveryWay) {
    ByHand call;
    call.read = {-1, 2};
    call.write = {0, 2};
    LaidOut out(std::array<std::int64_t, 4>{2, 1, 1, 1}, DType::f32);
    call.args.out = out;
    (void)run(call.args);
    EXPECT_EQ(out.view().as<float>()[0], 0) << name;
    EXPECT_NEAR(out.view().as<float>()[1], 20 * -6.25, 1e-4) << name;
    EXPECT_EQ(call.pool[0], 8) << name << ": not even for a slot to write";
    EXPECT_NEAR(call.pool[2], -6.25, 1e-5) << name;
  }
}

TEST(KdaPool, EmptySequencesCopyTheirState) {
  const KdaCase made = make_kda_case({.H = 2, .K = 8, .V = 8, .lengths = {0, 3, 0}, .pool = 6});
  const std::array<std::int64_t, 3> read{4, 1, 2}, write{0, 1, -1};
  KdaArgs args = made.args;
  args.state_indices = {read.data(), DType::i64, {3}};
  args.state_write_indices = {write.data(), DType::i64, {3}};
  for (const auto& [name, run] : kEveryFunction) {
    SCOPED_TRACE(name);
    expect_bits_of_sequences_alone(run, args, true);
    const LaidOut pool = LaidOut::copy_of(args.initial_state);
    KdaArgs in_place = args;
    in_place.initial_state = in_place.final_state = pool;
    (void)run(in_place);
    EXPECT_EQ(bytes_of(pool.view().slice(0, 0, 1)), bytes_of(made.args.initial_state.slice(0, 4, 1)));
  }
}

TEST(KdaPool, StartsFromZerosWithoutAnInitialState) {
  const KdaCase call =
      make_kda_case({.B = 4, .T = 5, .H = 1, .K = 8, .V = 8, .initial_state = false, .pool = 6});
  for (const auto& [name, run] : kEveryFunction) {
    SCOPED_TRACE(name);
    expect_bits_of_sequences_alone(run, call.args, false);
  }
}

TEST(KdaPool, IndicesMayBeStridedAndRunBackwards) {
  KdaCase call = make_kda_case({.B = 5, .T = 2, .H = 1, .K = 8, .V = 12, .pool = 12, .write_indices = true});
  const LaidOut read = LaidOut::copy_of(call.args.state_indices, {.gaps = {2}, .reversed = {true}});
  const LaidOut write = LaidOut::copy_of(call.args.state_write_indices, {.gaps = {1}});
  ASSERT_FALSE(read.view().is_contiguous() || write.view().is_contiguous());
  call.args.state_indices = read;
  call.args.state_write_indices = write;
  for (const auto& [name, run] : kEveryFunction) {
    SCOPED_TRACE(name);
    expect_bits_of_sequences_alone(run, call.args, true);
    expect_bits_of_sequences_alone(run, call.args, false);
  }
}

TEST(KdaPool, MayBePaddedAndTurned) {
  fla::cases::Random random(8);
  const KdaCase call =
      make_kda_case({.B = 5, .T = 3, .H = 2, .K = 8, .V = 12, .pool = 12, .write_indices = true});
  const auto reference = fla::cases::reference_of(call.args);
  for (int round = 0; round < 10; ++round) {
    for (const auto& [name, run] : kEveryWay) {
      const LaidOut pool =
          LaidOut::copy_of(call.args.initial_state, fla::conformance::Layout::random(4, random));
      KdaArgs args = call.args;
      args.initial_state = args.final_state = pool;
      EXPECT_EQ(fla::conformance::disagreement(run(args), reference, args), "") << name;
      EXPECT_TRUE(pool.intact_around()) << name;
    }
  }
}

TEST(KdaPool, MayBeEmpty) {
  for (const bool states : {false, true}) {
    const KdaCase call =
        make_kda_case({.B = 3, .T = 4, .H = 1, .K = 8, .V = 8, .initial_state = states, .pool = 0});
    for (const auto& [name, run] : kEveryFunction) {
      SCOPED_TRACE(name);
      expect_bits_of_sequences_alone(run, call.args, false);
      if (states) expect_bits_of_sequences_alone(run, call.args, true);
    }
  }
}

TEST(KdaPool, MayServeNoSequence) {
  const KdaCase call =
      make_kda_case({.B = 0, .T = 4, .H = 1, .K = 8, .V = 8, .pool = 3, .write_indices = true});
  for (const auto& [name, run] : kEveryFunction) {
    SCOPED_TRACE(name);
    expect_bits_of_sequences_alone(run, call.args, false);
    expect_bits_of_sequences_alone(run, call.args, true);
  }
}

TEST(KdaPool, SlotsOfACallAreWhatItsIndicesSay) {
  ByHand call;
  call.read = {-4, 3};
  call.write = {1, -1};
  EXPECT_LT(fla::slots_of(call.args, 0).read, 0);
  EXPECT_LT(fla::slots_of(call.args, 0).write, 0) << "a skipped sequence writes nothing";
  EXPECT_EQ(fla::slots_of(call.args, 1).read, 3);
  EXPECT_LT(fla::slots_of(call.args, 1).write, 0);
  call.args.state_write_indices = {};
  EXPECT_EQ(fla::slots_of(call.args, 1).write, 3);
  call.args.state_indices = {};
  EXPECT_EQ(fla::slots_of(call.args, 1).read, 1);
  EXPECT_EQ(fla::slots_of(call.args, 1).write, 1);
}

std::vector<std::int64_t> unused_slots(const KdaArgs& args) {
  std::vector<std::int64_t> slots;
  for (std::int64_t slot = 0; slot < args.initial_state.size(0); ++slot) {
    bool used = false;
    for (std::int64_t n = 0; n < args.q.size(0); ++n) {
      const fla::StateSlots its = fla::slots_of(args, n);
      used |= its.read == slot || its.write == slot;
    }
    if (!used) slots.push_back(slot);
  }
  return slots;
}

/// "Nothing is lost": slots are the old ones or the new ones, of all sequences.
TEST(KdaPool, IsAsItWasAfterAStageThatFailed) {
  const KdaCase call = make_kda_case({.B = 6,
                                      .T = 3,
                                      .H = 2,
                                      .K = 8,
                                      .V = 12,
                                      .pool = 14,
                                      .write_indices = true,
                                      .options = {.output_final_state = true, .use_gate_in_kernel = true}});
  std::vector<std::int64_t> kept = unused_slots(call.args);  // one for every sequence
  ASSERT_GE(kept.size(), 2u);
  kept.resize(6, -1);
  int left = 5;
  const auto failing =
      fla::register_backend("common.gate", {.name = "failing"}, [&](const fla::GateArgs& gate) {
        if (--left < 0) throw fla::BackendError("no gate today", fla::BackendError::Wrote::nothing);
        return fla::common::original::gate(gate);
      });
  const fla::ScopedPolicy original_kernels({.order = {{"kda", {}}}});
  fla::set_num_threads(1);
  for (auto* run : {&fla::chunk_kda, &fla::fused_recurrent_kda}) {
    LaidOut pool = LaidOut::copy_of(call.args.initial_state);
    KdaArgs args = call.args;
    args.initial_state = args.final_state = pool;
    left = 5;
    EXPECT_THROW((void)run(args), fla::BackendError);
    EXPECT_TRUE(pool.intact());
    left = 1'000'000;
    expect_bits_of_sequences_alone(run, call.args, true);

    args.checkpoint_every = 1;
    args.checkpoint_indices = {kept.data(), fla::DType::i64, {6, 1}};
    const fla::cases::Reference reference = fla::cases::reference_of(args);
    left = 5;
    EXPECT_THROW((void)run(args), fla::BackendError);
    EXPECT_TRUE(pool.intact());
    left = 1'000'000;
    EXPECT_EQ(fla::conformance::disagreement(run(args), reference, args), "");
  }
  fla::set_num_threads(0);
}

}  // namespace
