#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "tools/cases/random_case.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

/// States on the way, of every op of the family.
namespace {

using fla::DType;
using fla::RecurrenceResult;
using fla::TensorView;
using fla::cases::CaseSpec;
using fla::cases::RandomCase;
using fla::conformance::bytes_of;
using fla::conformance::LaidOut;
using fla::conformance::Layout;

constexpr std::int64_t kTokens = 70;

template <class Args>
struct Op {
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

#define FLA_OP(NAME, ARGS)                                                                       \
  TEST(Checkpoints, NAME##_keeps_states_at_any_spacing) { Op<fla::ARGS>::expect_any_spacing(); } \
  TEST(Checkpoints, NAME##_writes_them_where_it_is_told) { Op<fla::ARGS>::expect_any_memory(); } \
  TEST(Checkpoints, NAME##_keeps_its_bits) {                                                     \
    using Functions = fla::cases::Functions<fla::ARGS>;                                          \
    for (const std::int64_t every : {16, 48, 64})                                                \
      Op<fla::ARGS>::expect_same_bits(Functions::original_chunk, every);                         \
    for (const std::int64_t every : {5, 64})                                                     \
      Op<fla::ARGS>::expect_same_bits(Functions::original_recurrent, every);                     \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace
