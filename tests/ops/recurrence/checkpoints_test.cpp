#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "tools/cases/random_case.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

/// States on the way, of every op of the family.
namespace {

using fla::DType;
using fla::RecurrenceResult;
using fla::Tensor;
using fla::TensorView;
using fla::cases::CaseSpec;
using fla::cases::RandomCase;
using fla::conformance::bytes_of;
using fla::conformance::LaidOut;
using fla::conformance::Layout;

constexpr std::int64_t kTokens = 70;

template <class Args>
struct Checkpoints {
  using Functions = fla::cases::Functions<Args>;
  using Function = RecurrenceResult (*)(const Args&);
  static constexpr std::array<Function, 3> kFunctions{Functions::door, Functions::chunk,
                                                      Functions::recurrent};

  /// With room for all that a sequence reaches, and for one more.
  static CaseSpec<Args> spec_of(std::int64_t every) {
    return {.B = 2,
            .T = kTokens,
            .H = 1,
            .HV = 2,
            .K = 12,
            .V = 20,
            .options = {.output_final_state = true, .checkpoint_every = every},
            .checkpoints = kTokens / every + 1};
  }

  /// Expects the function to write what the reference has, and nothing else.
  static void expect_reference(Function run, const Args& args, const std::string& what) {
    const fla::cases::Reference reference = fla::cases::reference_of(args);
    const RecurrenceResult result = run(args);
    EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "") << what;
    EXPECT_TRUE(fla::cases::rest_holds(args.checkpoints, reference, 0.125)) << what;
  }
  static void expect_reference(const CaseSpec<Args>& spec, const std::string& what) {
    for (const Function run : kFunctions) expect_reference(run, fla::cases::make_case(spec).args, what);
  }

  static void expect_any_spacing() {
    for (const std::int64_t every : {1, 7, 16, 64, 100}) {
      for (const bool v_first : {false, true}) {
        CaseSpec<Args> spec = spec_of(every);
        spec.options.state_v_first = v_first;
        expect_reference(spec, "every " + std::to_string(every));
        spec.lengths = {33, 0, 5, kTokens, 1};
        expect_reference(spec, "packed, every " + std::to_string(every));
      }
    }
  }

  static void expect_any_memory() {
    CaseSpec<Args> spec = spec_of(7);
    spec.lengths = {33, 0, 5, kTokens, 1};
    spec.checkpoints = 2;
    expect_reference(spec, "too few for all");
    spec.checkpoints = 0;
    expect_reference(spec, "no room for any");
    spec.checkpoints = 3;
    spec.checkpoint_dtype = DType::bf16;
    expect_reference(spec, "bf16");
    spec.pool = 7;
    expect_reference(spec, "in a pool, with sequences that are skipped");
    spec.write_indices = true;
    expect_reference(spec, "with slots to write");
    const RandomCase<Args> call = fla::cases::make_case(spec);
    for (const Function run : kFunctions) {
      const LaidOut states = LaidOut::copy_of(call.args.checkpoints, Layout::turned(5));
      Args args = call.args;
      args.checkpoints = states;
      expect_reference(run, args, "with any strides");
      EXPECT_TRUE(states.intact_around());
    }
  }

  /// Calls whose checkpoints go into the pool; `accepted`: which start from some of those of the last call.
  static CaseSpec<Args> pooled_spec(std::int64_t every, bool accepted) {
    CaseSpec<Args> spec = spec_of(every);
    spec.lengths = {33, 0, 5, kTokens, 1};
    spec.pool = 24;
    spec.checkpoints = 4;
    spec.checkpoint_indices = true;
    spec.accepted_tokens = accepted;
    return spec;
  }

  static bool same_slot(const TensorView& a, const TensorView& b, std::int64_t slot) {
    return bytes_of(a.slice(0, slot, 1)) == bytes_of(b.slice(0, slot, 1));
  }

  /// Expects the function to write the slots that it is told to, and no other.
  static void expect_slots(Function run, const CaseSpec<Args>& spec, bool in_place, const std::string& what) {
    RandomCase<Args> call = fla::cases::make_case(spec);
    if (in_place) call.args.initial_state = call.args.final_state;
    const fla::cases::Reference reference = fla::cases::reference_of(call.args);
    const LaidOut before = LaidOut::copy_of(call.args.final_state);
    const RecurrenceResult result = run(call.args);
    EXPECT_EQ(fla::conformance::disagreement(result, reference, call.args), "") << what;
    for (std::int64_t slot = 0; slot < *spec.pool; ++slot) {
      if (std::ranges::find(reference.slots, slot) != reference.slots.end()) continue;
      EXPECT_TRUE(same_slot(result.final_state, before.view(), slot)) << what << ", slot " << slot;
    }
  }

  static void expect_slots() {
    for (const bool accepted : {false, true}) {
      for (const std::int64_t every : {1, 7, 16}) {
        if (accepted && every != 1) continue;
        CaseSpec<Args> spec = pooled_spec(every, accepted);
        const std::string what = "every " + std::to_string(every) + (accepted ? ", accepted" : "");
        for (const Function run : kFunctions) {
          for (const bool in_place : {false, true}) expect_slots(run, spec, in_place, what);
          spec.write_indices = spec.options.state_v_first = true;
          spec.index_dtype = DType::i32;
          spec.state_dtype = DType::bf16;
          spec.seed = 2;
          expect_slots(run, spec, true, what + ", bf16");
        }
      }
    }
  }

  /// One request in a pool: steps of drafts of which some are accepted leave the states of the tokens that
  /// were, as if those alone had been there.
  static void expect_rollback() {
    constexpr std::int64_t kDrafts = 4, kSteps = 5;
    const std::array<std::int64_t, kSteps> accepted{4, 1, 0, 3, 2};
    CaseSpec<Args> spec{.T = kDrafts, .H = 1, .HV = 2, .K = 12, .V = 20, .pool = 1};
    Tensor pool = Tensor::zeros({kDrafts + 1, 2, 12, 20}, DType::f32),
           expected = Tensor::zeros({1, 2, 12, 20}, DType::f32);
    std::array<std::int64_t, 1> first{0}, count{0};
    std::array<std::int64_t, kDrafts> slots{3, 1, 4, 2};
    for (std::int64_t step = 0; step < kSteps; ++step) {
      spec.seed = static_cast<std::uint64_t>(10 + step);
      spec.pool = {};
      const RandomCase<Args> drafts = fla::cases::make_case(spec);
      Args args = drafts.args;
      args.initial_state = args.final_state = pool;
      args.output_final_state = true;
      args.state_indices = {first.data(), DType::i64, {1}};
      args.checkpoint_every = 1;
      args.checkpoint_indices = {slots.data(), DType::i64, {1, kDrafts}};
      args.num_accepted_tokens = {count.data(), DType::i64, {1}};
      const RecurrenceResult result = fla::cases::Functions<Args>::original_recurrent(args);
      // The same from the state of the tokens so far.
      Args plain = drafts.args;
      plain.initial_state = expected;
      EXPECT_EQ(bytes_of(result.o), bytes_of(fla::cases::Functions<Args>::original_recurrent(plain).o))
          << step;
      count[0] = accepted[static_cast<std::size_t>(step)];
      if (count[0] == 0) {  // the state before the step is the one to start from
        first[0] = 0;
        std::memcpy(pool.data(), expected.data(), bytes_of(expected).size());
        continue;
      }
      plain = beginning(plain, count[0]);
      plain.final_state = expected;
      (void)fla::cases::Functions<Args>::original_recurrent(plain);
      EXPECT_EQ(bytes_of(expected),
                bytes_of(TensorView(pool).slice(0, slots[static_cast<std::size_t>(count[0] - 1)], 1)))
          << step;
    }
  }

  /// The first `tokens` of every sequence of a call that is not packed, without checkpoints.
  static Args beginning(const Args& args, std::int64_t tokens) {
    Args cut = args;
    cut.checkpoint_every = {}, cut.checkpoints = {};
    for (const fla::Argument& argument : Args::arguments()) {
      if (argument.kind != fla::ArgumentKind::tensor) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&cut));
      if (tensor.defined() && argument.shape.first.dims[1].axis == fla::Axis::T)
        tensor = tensor.slice(1, 0, tokens);
    }
    return cut;
  }

  /// Expects the bits of the call without checkpoints, and in those the bits of calls that end there.
  static void expect_same_bits(Function run, std::int64_t every) {
    const RandomCase<Args> call = fla::cases::make_case(spec_of(every));
    const RecurrenceResult result = run(call.args);
    EXPECT_TRUE(fla::conformance::same_bits(result, run(beginning(call.args, kTokens)))) << every;
    for (std::int64_t i = 0; i < kTokens / every; ++i) {
      const RecurrenceResult part = run(beginning(call.args, (i + 1) * every));
      EXPECT_EQ(bytes_of(part.final_state), bytes_of(call.args.checkpoints.slice(1, i, 1)))
          << every << ", " << i;
    }
  }
};

#define FLA_OP(NAME, ARGS)                                                                                \
  TEST(Checkpoints, NAME##_keeps_states_at_any_spacing) { Checkpoints<fla::ARGS>::expect_any_spacing(); } \
  TEST(Checkpoints, NAME##_writes_them_where_it_is_told) { Checkpoints<fla::ARGS>::expect_any_memory(); } \
  TEST(Checkpoints, NAME##_puts_them_into_slots) { Checkpoints<fla::ARGS>::expect_slots(); }              \
  TEST(Checkpoints, NAME##_goes_on_from_accepted_tokens) { Checkpoints<fla::ARGS>::expect_rollback(); }   \
  TEST(Checkpoints, NAME##_keeps_its_bits) {                                                              \
    using Functions = fla::cases::Functions<fla::ARGS>;                                                   \
    for (const std::int64_t every : {16, 48, 64})                                                         \
      Checkpoints<fla::ARGS>::expect_same_bits(Functions::original_chunk, every);                         \
    for (const std::int64_t every : {5, 64})                                                              \
      Checkpoints<fla::ARGS>::expect_same_bits(Functions::original_recurrent, every);                     \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace
