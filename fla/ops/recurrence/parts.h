#pragma once

#include "fla/core/arguments.h"

/// The parts that the lists of arguments of the family's ops are made of (fla/core/arguments.h), so that an
/// argument is described once in the tree. A line is
///
///     tensors: name, need, dtypes, shape, documentation
///     outputs: name, dtypes, shape, in place of, documentation
///
/// and last, where there is one, the argument that must be given with it. recurrence.h says what the sizes
/// are.

#define FLA_PART_TOKENS(TENSOR)                          \
  TENSOR(q, required, kFloatTypes, "B T H K", "queries") \
  TENSOR(k, required, kFloatTypes, "B T H K", "keys")    \
  TENSOR(v, required, kFloatTypes, "B T HV V", "values")

#define FLA_PART_BETA(TENSOR, DOCUMENTATION) TENSOR(beta, required, kFloatTypes, "B T HV", DOCUMENTATION)
#define FLA_RAW_BETA "how far a key is rewritten; raw with use_beta_sigmoid_in_kernel"

#define FLA_PART_STATES(TENSOR, NUMBER, FLAG)                                       \
  NUMBER(scale, "factor of the output; 1/sqrt(K) when left out")                    \
  TENSOR(initial_state, optional, kStateTypes, "P HV K V; state_v_first: P HV V K", \
         "the state to start from")                                                 \
  FLAG(output_final_state, "return the state after the last token")

#define FLA_PART_NORM(FLAG) FLAG(use_qk_l2norm_in_kernel, "normalise q and k: x * rsqrt(sum(x^2) + 1e-6)")

/// What g and beta go through in the kernel. FLA_PART_GATE_PARAMETERS belongs to it.
#define FLA_PART_GATE_AND_SIGMOID(NUMBER, FLAG)                                                \
  FLAG(use_gate_in_kernel, "g is -exp(A_log) * softplus(g + dt_bias), or as lower_bound says") \
  FLAG(use_beta_sigmoid_in_kernel, "beta is sigmoid(beta)")                                    \
  FLAG(allow_neg_eigval, "beta is doubled", use_beta_sigmoid_in_kernel)                        \
  FLAG(safe_gate, "with use_gate_in_kernel: lower_bound must be in [-5, 0)")                   \
  NUMBER(lower_bound, "with use_gate_in_kernel: g is lower_bound * sigmoid(exp(A_log) * (g + dt_bias))")

#define FLA_PART_PACKING(INDEX, FLAG)                                                                  \
  FLAG(state_v_first, "states are [V, K] instead of [K, V]")                                           \
  INDEX(cu_seqlens, optional, kIndexTypes, "N+1", "where packed sequences begin; the last entry is T") \
  INDEX(state_indices, optional, kIndexTypes, "N",                                                     \
        "the slot of the states' pool that a sequence reads; negative: the sequence is skipped")       \
  INDEX(state_write_indices, optional, kIndexTypes, "N",                                               \
        "the slot that a sequence writes, state_indices if left out; negative: not written", state_indices)

#define FLA_PART_GATE_PARAMETERS(TENSOR, BIAS_SHAPE)                          \
  TENSOR(A_log, optional, kFloatTypes, "HV",                                  \
         "logarithm of the gate's rate; with lower_bound it may be left out") \
  TENSOR(dt_bias, optional, kFloatTypes, BIAS_SHAPE, "added to g before the gate")

#define FLA_PART_OUTPUTS(OUTPUT)                                                         \
  OUTPUT(out, kFloatTypes, "B T HV V", "", "memory for o, dtype of v")                   \
  OUTPUT(final_state, kStateTypes, "P HV K V; state_v_first: P HV V K", "initial_state", \
         "memory for the final state, which is then returned; may be initial_state itself")
