#pragma once

#include <cmath>
#include <cstdint>

#include "fla/ops/common/kernel_views.h"
#include "fla/ops/recurrence/kinds.h"

namespace fla {

/// A valid call of any op of the family, below the library's tensors, for kernels of CPUs and GPUs: small
/// enough to travel as a kernel's argument. Per token
///
///     S <- diag(exp(g)) S          g as `gate_kind` says
///     S <- S + k u^T               u as `rule` says
///     o = scale * q^T S            / (scale * q^T z + 1e-10) with `normalize`, z the sum of the keys so far
///
/// The ops' headers have the rest; call_of.h makes the call.
struct RecurrenceCall {
  std::int64_t T = 0, N = 1;
  int HV = 1, K = 0, V = 0;
  int group = 1;  ///< value heads of a key head
  common::Rows q{}, k{}, v{}, g{}, beta{}, o{};
  float scale = 1;
  common::GateInput gate = common::GateInput::given;
  float lower_bound = 0;  ///< with GateInput::bounded
  float head_slope = 0;   ///< with HeadGate::slopes
  common::Parameters A_log{}, dt_bias{};
  bool l2norm = false, beta_sigmoid = false, neg_eigval = false;
  bool state_v_first = false;
  GateKind gate_kind = GateKind::channel;
  Rule rule = Rule::delta;
  HeadGate head_gate = HeadGate::given;
  bool normalize = false;
  /// May be the same memory. initial_state.slots is the pool's size also where there is no initial_state:
  /// final_state's, or kAnySlot.
  common::States initial_state{.slots = common::kAnySlot}, final_state{};
  common::Indices read_slots{};   ///< N entries; absent: sequence n has slot n
  common::Indices write_slots{};  ///< N entries; absent: like read_slots. No slot twice in one call
  common::Indices cu_seqlens{};   ///< N + 1 entries; absent: a batch is a sequence, T long
};
// Kernels of GPUs copy it into their arguments. Where those lie decides, as of CUDA 13.0, whether ptxas finds
// registers for flash_kda's products.
static_assert(sizeof(RecurrenceCall) == 592);

/// Of a call with Rule::low_rank, beside it.
struct LowRankPair {
  common::Rows a{}, b{};
};

/// Where the states of sequences go on the way.
struct Checkpoints {
  common::States states{};    ///< those of the first sequence, or a pool that all of them share
  std::int64_t sequence = 0;  ///< bytes from one sequence's states to the next one's
  std::int64_t every = 0;     ///< 0: none are kept
  std::int64_t count = 0;     ///< of a sequence: those after every, 2 * every, ... of its tokens
  common::IndexRows slots{};  ///< of each sequence; absent: number i has slot i

  FLA_HOST_DEVICE common::States of(std::int64_t n) const {
    common::States own = states;
    own.data = static_cast<char*>(states.data) + n * sequence;
    return own;
  }

  /// The slot of sequence n's state after so many of its tokens, more than 0; negative: it is not kept.
  FLA_HOST_DEVICE std::int64_t slot_after(std::int64_t n, std::int64_t tokens) const {
    if (every == 0 || tokens % every != 0) return -1;
    const std::int64_t i = tokens / every - 1;
    if (i >= count) return -1;
    return slots.first.data ? common::slot_in<std::int64_t>(states, slots[n][i]) : i;
  }
};

/// How far sequences got in the step before, which kept a state a token.
struct AcceptedTokens {
  common::Indices count{};    ///< of each sequence; absent: they start from the slots that they read
  std::int64_t most = 0;      ///< tokens that have a slot
  common::IndexRows slots{};  ///< the states after each of a sequence's tokens
};

/// As without `accepted`, but for a sequence that starts from the state after a token that was accepted. A
/// count out of range skips the sequence. No slot is written unless write_slots say which.
template <class Call>
FLA_HOST_DEVICE common::Slots slots_of(const Call& call, const AcceptedTokens& accepted, std::int64_t n) {
  common::Slots slots = common::slots_of(call, n);
  if (!accepted.count.data) return slots;
  if (!call.write_slots.data) slots.write = -1;
  const std::int64_t count = accepted.count[n];
  if (slots.read < 0 || count == 0) return slots;
  slots.read = count > 0 && count <= accepted.most
                   ? common::slot_in<std::int64_t>(call.initial_state, accepted.slots[n][count - 1])
                   : -1;
  return slots;
}

/// What few calls have. It travels beside the call, which keeps its size.
struct CallExtras {
  LowRankPair pair{};
  Checkpoints checkpoints{};
  AcceptedTokens accepted{};
};

/// A valid backward call: what goes forward, the gradients that come in, and where those of the inputs go.
/// Where nothing is, nothing is asked for.
struct BackwardCall {
  RecurrenceCall call{};  ///< without o and final_state
  LowRankPair pair{};
  common::Rows do_{};
  common::States dht{};
  common::Rows dq{}, dk{}, dv{}, dg{}, dbeta{}, da{}, db{};
  common::States dinitial_state{};
  common::Parameters dg_gamma{}, dA_log{}, ddt_bias{};
};

/// The log-decay of a head that no tensor holds.
template <class Call>
FLA_HOST_DEVICE float head_decay(const Call& call, std::int64_t head) {
  if (call.head_gate == HeadGate::slopes) return -call.head_slope * static_cast<float>(head);
  return log1pf(-exp2f(-5 - static_cast<float>(head)));
}

}  // namespace fla
