#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fla/ops/kda/kda.h"

namespace fla_test {

/// A call that cuda_decode takes, as metadata: its tensors lie at addresses, 2^40 bytes apart, that nobody
/// ever reads. f32, B=2 T=1 H=2 HV=4 K=64 V=64, states in a pool of 5, an initial state, memory for o and the
/// final state.
class DecodeCall {
 public:
  DecodeCall();

  fla::KdaArgs args;

  /// A view of that shape at an address of its own.
  fla::TensorView tensor(std::initializer_list<std::int64_t> shape, fla::DType dtype = fla::DType::f32);
  /// The same view with another stride on one axis, `bytes` bytes further on.
  static fla::TensorView strided(const fla::TensorView& view, int axis, std::int64_t stride);
  static fla::TensorView moved(const fla::TensorView& view, std::int64_t bytes);
  /// The same call on another device.
  void put_on(fla::Device device);
  /// The call with these sizes, without states.
  void resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K, std::int64_t V);
  /// Gives it a slot in the pool for each sequence, on the host.
  void index_on_host();

 private:
  std::uintptr_t last_ = std::uintptr_t{1} << 40;
  std::vector<std::int32_t> slots_;
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
