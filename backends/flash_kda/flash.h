#pragma once

#include "fla/ops/recurrence/cuda/kernels.h"

/// kda's chunked forward pass on Hopper (sm_90a), for calls that the verifier accepts: K and V of 64 or 128;
/// q, k, v, o all bf16 or all f16, g of that type or f32, states f32 in any layout. The state is kept in f32;
/// products have f16 and, inside a chunk, bf16 factors. Keys are expected with a norm of about 1 at most, as
/// use_qk_l2norm_in_kernel makes them, and values within f16's range.
namespace fla::flash_kda {

/// Which way a call goes. `together` or not and `shares` make no difference to the results; segments do,
/// within their errors.
struct Route {
  std::int32_t streams = 0;      ///< chains of states that run at once
  std::int32_t depth = 0;        ///< places of packets a stream has; 0: all packets are kept
  std::int32_t prep_blocks = 0;  ///< CTAs that prepare
  std::int32_t segments = 1;     ///< of a chain; more than 1: run at once, packets kept
  std::int32_t shares = 1;       ///< CTAs of a chain; 2: each has half of V

  /// Prep and state in one launch, packets passing through L2.
  bool together() const { return depth > 0; }
  /// CTAs that run chains.
  std::int32_t state_blocks() const { return streams * segments * shares; }
};

/// The cheapest on a device with so many multiprocessors, from sizes alone. `deterministic`: of those that
/// give a sequence the same bits in any batch.
Route route_of(const RecurrenceCall& call, int processors, bool deterministic);

/// Bytes that a call takes that way, at any address that is a multiple of 256.
std::size_t workspace(const RecurrenceCall& call, const Route& route);

/// Puts a call on a stream of the current device, under the contract of fla/ops/recurrence/cuda/kernels.h.
cudaError_t launch(const RecurrenceCall& call, const Route& route, void* workspace, cudaStream_t stream);

}  // namespace fla::flash_kda
