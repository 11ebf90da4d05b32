#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/backends/metadata_call.h"

namespace fla_test {

/// A call that tilelang takes: bf16, B=2 T=200 H=2 HV=4 K=V=128, beta in f32, the gate in the kernel with a
/// lower bound, states in a pool of 5, an initial state, memory for o and the final state.
class TileLangCall : public MetadataCall {
 public:
  TileLangCall();

  /// The call with these sizes, without states and without a gate.
  void resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K = 128, std::int64_t V = 128);
  /// N sequences of T tokens together, without states.
  void pack(std::int64_t N, std::int64_t T);
};

struct Refusal {
  const char* name;
  std::function<void(TileLangCall&)> spoil;
  std::string reason;
};

/// One for every branch of tilelang's verifier that a GPU of compute capability 9.0 can come to, but for the
/// workspace's.
const std::vector<Refusal>& refusals();

/// Calls that look alike and are taken.
struct Acceptance {
  const char* name;
  std::function<void(TileLangCall&)> change;
};
const std::vector<Acceptance>& acceptances();

}  // namespace fla_test
