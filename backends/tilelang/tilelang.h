#pragma once

#include <string>
#include <string_view>

#include "fla/ops/recurrence/cuda/kernels.h"

/// kda's chunked forward pass by kernels written in TileLang, for calls that the verifier accepts: K = 64,
/// 128 or 256, V a multiple of 64; q, k, v, o all bf16 or all f16; g, beta, A_log and dt_bias of that type or
/// f32; states f32 in any layout. The state is kept in f32; products have f16 factors, in units of powers of
/// two that follow the values: q, v, states and keys of any magnitude are as exact as plain ones, as long as
/// the recurrence does not grow (beta |k|^2 beyond 2 at token after token, gates above 0): what then leaves
/// f16's range within a chunk is NaN.
namespace fla::tilelang {

/// Why this build has no kernels; empty where it has them.
std::string_view why_not_built();

/// The names of the instances that such a call runs.
std::string instances_of(const RecurrenceCall& call);

/// Bytes that a call takes, at any address that is a multiple of 256.
std::size_t workspace(const RecurrenceCall& call);

/// Puts a call on a stream of the current device, under the contract of fla/ops/recurrence/cuda/kernels.h.
/// Only the last kernel writes results.
cudaError_t launch(const RecurrenceCall& call, void* workspace, cudaStream_t stream);

}  // namespace fla::tilelang
