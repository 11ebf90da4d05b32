#include "tests/dispatch/config/ruled.h"

#include <array>

#include "fla/dispatch/call/dispatch.h"

namespace fla_test {

fla::ArgumentTable RuledArgs::arguments() { FLA_RETURN_ARGUMENT_TABLE(RuledArgs, FLA_RULED_ARGUMENTS); }

fla::ArgumentTable RuledStepArgs::arguments() {
  FLA_RETURN_ARGUMENT_TABLE(RuledStepArgs, FLA_RULED_STEP_ARGUMENTS);
}

DISPATCH("ruled", RuledResult, ruled_chunk, const RuledArgs&) { return {"original"}; }
DISPATCH("ruled", RuledResult, ruled_step, const RuledStepArgs&) { return {"original step"}; }

RuledResult RuledBackend::ruled_chunk(const RuledArgs&) { return {"nobody"}; }
fla::Verdict RuledBackend::ruled_chunk_verifier(const RuledArgs&) const { return fla::accept(); }
RuledResult RuledBackend::ruled_step(const RuledStepArgs&) { return {"nobody"}; }
fla::Verdict RuledBackend::ruled_step_verifier(const RuledStepArgs&) const { return fla::accept(); }

RuledArgs arguments_of(const Call& call) {
  RuledArgs args;
  args.x = fla::TensorView(nullptr, call.dtype, {call.B, call.T, call.H, call.K}, call.device);
  args.w = fla::TensorView(nullptr, call.dtype, {call.B, call.T, call.HV, call.V}, call.device);
  args.scale = call.scale;
  args.lower_bound = call.lower_bound;
  args.depth = call.depth;
  args.fast = call.fast;
  args.v_first = call.v_first;
  const std::int64_t N = call.packed >= 0 ? call.packed : call.B;
  if (call.packed >= 0) args.cu_seqlens = fla::TensorView(nullptr, fla::DType::i32, {N + 1});
  if (call.state) {
    const std::int64_t rows = call.v_first ? call.V : call.K, columns = call.v_first ? call.K : call.V;
    args.state = fla::TensorView(nullptr, fla::DType::f32, {N, call.HV, rows, columns}, call.device);
  }
  return args;
}

}  // namespace fla_test
