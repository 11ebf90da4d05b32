#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/backends/metadata_call.h"

/// What tests of verifiers that take chunk_kda begin with, and how they spoil it.
namespace fla_test {

/// A call that every backend of chunk_kda takes: bf16, B=2 T=200 H=2 HV=4 K=V=128, beta in f32, the gate in
/// the kernel with a lower bound, states in a pool of 5, an initial state, memory for o and the final state.
class ChunkCall : public MetadataCall {
 public:
  ChunkCall();
  /// The call with these sizes, without states and without a gate.
  void resize(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K = 128, std::int64_t V = 128);
  /// N sequences of T tokens together, without states.
  void pack(std::int64_t N, std::int64_t T);
};

struct Refusal {
  const char* name;
  std::function<void(ChunkCall&)> spoil;
  std::string reason;
};

/// A call that looks alike and is taken.
struct Acceptance {
  const char* name;
  std::function<void(ChunkCall&)> change;
};

/// Another dtype of one argument.
Refusal of_dtype(const char* name, fla::TensorView fla::KdaArgs::*member, fla::DType dtype,
                 std::string reason);
/// Another stride on one axis of one argument.
Refusal strided(const char* name, fla::TensorView fla::KdaArgs::*member, int axis, std::int64_t stride,
                std::string reason);
/// One argument that begins so many bytes further.
Refusal moved(const char* name, fla::TensorView fla::KdaArgs::*member, std::int64_t bytes,
              std::string reason);
/// With states on the way.
Refusal with_checkpoints();
/// Other sizes.
Refusal resized(const char* name, std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K,
                std::int64_t V, std::string reason);

}  // namespace fla_test
