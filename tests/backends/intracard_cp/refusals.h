#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tests/backends/chunk_call.h"

namespace fla_test {

/// A call that intracard_cp takes: bf16, B=2 T=4096 H=2 HV=4 K=V=128, beta in f32, states in a pool of 5,
/// memory for o.
class LongCall : public ChunkCall {
 public:
  LongCall();
};

/// One for every branch of the verifier that a GPU of compute capability 8.0 or above with so many
/// multiprocessors can come to with a call of kda …
std::vector<Refusal> refusals_of_long_calls(int multiprocessors);

/// … and with one of linear_attn.
class NormalizedCall : public MetadataTensors {
 public:
  static constexpr const char* kReason = "requires a call without normalize, whose sums go beyond the state";
  fla::LinearAttnArgs args;

  NormalizedCall();
};

/// A call of dplr_delta_rule that is refused for one of the pair, "a" or "b".
class PairCall : public MetadataTensors {
 public:
  fla::DplrDeltaRuleArgs args;

  explicit PairCall(fla::TensorView fla::DplrDeltaRuleArgs::*spoilt);
  static std::string reason(const std::string& name);
};

/// Calls that look alike and are taken.
const std::vector<Acceptance>& long_calls();

}  // namespace fla_test
