#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tests/backends/metadata_call.h"

namespace fla_test {

/// A call that cuda_decode takes: f32, B=2 T=1 H=2 HV=4 K=64 V=64, states in a pool of 5, an initial state,
/// memory for o and the final state.
class DecodeCall : public MetadataCall {
 public:
  DecodeCall();

  /// The call with these sizes, without states.
  void resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K, std::int64_t V);
};

/// Calls of other ops with arguments that kda does not have, which cuda_decode refuses: one for every branch.
class OtherOpsCall : public DecodeCall {
 public:
  fla::SimpleGlaArgs with_backward_gamma();
  static constexpr const char* kBackwardGamma = "requires strides from 0 to 2^32-1 in g_gamma, got -1";

  fla::DplrDeltaRuleArgs with_far(fla::TensorView fla::DplrDeltaRuleArgs::*member);
  static std::string far_reason(const std::string& name) {
    return "requires strides from 0 to 2^32-1 in " + name + ", got 4294967296";
  }
};

struct Refusal {
  const char* name;
  std::function<void(DecodeCall&)> spoil;
  std::string reason;
};

/// One for every branch of cuda_decode's verifier that a GPU of compute capability 8.0 or above can come to.
const std::vector<Refusal>& refusals();

/// Calls that look alike and are taken.
struct Acceptance {
  const char* name;
  std::function<void(DecodeCall&)> change;
};
const std::vector<Acceptance>& acceptances();

}  // namespace fla_test
