#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu_simd/head.h"
#include "fla/ops/recurrence/parameter_sums.h"
#include "fla/ops/recurrence/replay_call.h"

namespace fla::cpu_simd {

/// Value columns [V * part / parts, V * (part + 1) / parts) of one value head of one sequence, cut where it
/// suits the kernel. A column has the same bits however the head is cut.
struct HeadTask {
  std::int64_t sequence = 0, value_head = 0;
  std::int64_t part = 0, parts = 1;
  /// The sequence is worked on as if it were cut into calls of so many tokens, a multiple of a chunk's; 0: it
  /// is not.
  std::int64_t cut_every = 0;
};

/// Tokens of a chunk of the chunked kernel.
inline constexpr std::int64_t kChunkTokens = 8;

/// The chunked kernel of one SIMD target, for every rule but Rule::low_rank. Checkpoints lie between chunks.
struct ChunkKernel {
  std::size_t (*scratch_floats)(std::int64_t K, std::int64_t V);
  void (*run)(const RecurrenceCall& call, const CallExtras& extras, const HeadTask& task, float* scratch);
};

/// The recurrent kernel of one SIMD target. `run` takes the heads [first, last), counted along value heads
/// first and sequences second; consecutive heads of one call are prefetched.
struct RecurrentKernel {
  std::size_t (*scratch_floats)(std::int64_t K, std::int64_t V);
  void (*run)(const RecurrenceCall& call, const CallExtras& extras, std::int64_t first, std::int64_t last,
              std::int64_t part, std::int64_t parts, float* scratch);
};

/// The kernel of a step over rings, likewise.
struct ReplayKernel {
  std::size_t (*scratch_floats)(std::int64_t K, std::int64_t V);
  void (*run)(const ReplayCall& call, std::int64_t first, std::int64_t last, std::int64_t part,
              std::int64_t parts, float* scratch);
};

/// The value heads of one key head of one sequence, and where their parts of the parameters' gradients go.
struct GradientTask {
  std::int64_t sequence = 0, key_head = 0;
  recurrence::AllParameterSums& sums;
};

/// The backward kernel of one SIMD target, for every rule but Rule::low_rank and calls that do not normalize.
struct BackwardKernel {
  std::size_t (*scratch_floats)(const RecurrenceCall& call, std::int64_t tokens);
  void (*run)(const BackwardCall& call, const GradientTask& task, float* scratch);
};

/// Null when this build has no kernel for the target (one of Highway's HWY_NEON, HWY_AVX2, ...).
const ChunkKernel* chunk_kernel(std::int64_t target);
const RecurrentKernel* recurrent_kernel(std::int64_t target);
const ReplayKernel* replay_kernel(std::int64_t target);
const BackwardKernel* backward_kernel(std::int64_t target);

}  // namespace fla::cpu_simd
