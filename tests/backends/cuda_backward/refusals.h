#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tests/backends/metadata_call.h"

namespace fla_test {

/// A call that cuda_backward takes: bf16, B=2 T=200 H=2 HV=4 K=V=128, beta in f32, normalized keys, the gate
/// in the kernel with a lower bound, an initial state and the gradient of the final one, memory for dq, dk
/// and dv.
class GradientCall : public MetadataTensors {
 public:
  fla::KdaBackwardArgs args;

  GradientCall();
  /// The call with these sizes, without states, a gate and memory for gradients.
  void resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K = 128, std::int64_t V = 128,
              fla::DType dtype = fla::DType::bf16);
  /// N sequences of T tokens together, likewise.
  void pack(std::int64_t N, std::int64_t T);
  /// The same call on another device.
  void put_on(fla::Device device);
};

struct Refusal {
  const char* name;
  std::function<void(GradientCall&)> spoil;
  std::string reason;
};

/// One for every branch of cuda_backward's verifier that a GPU of compute capability 9.0 can come to.
const std::vector<Refusal>& refusals();

/// Calls that look alike and are taken.
struct Acceptance {
  const char* name;
  std::function<void(GradientCall&)> change;
};
const std::vector<Acceptance>& acceptances();

}  // namespace fla_test
