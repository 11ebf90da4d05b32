#pragma once

#include "fla/core/arguments.h"

/// The parts that the lists of arguments of the family's ops are made of (fla/core/arguments.h), so that an
/// argument is described once in the tree. A line is
///
///     tensors: name, need, dtypes, shape, documentation
///     outputs: name, dtypes, shape, in place of, documentation
///
/// and last, where there is one, the argument that must be given with it. Of the tensors, TOKENs have a row a
/// token, STATEs are pools of states, RINGs are what replay_<op> keeps of tokens (replay.h). FORWARD(…)
/// encloses lines that backward functions do not have; nor do they have the outputs. recurrence.h says what
/// the sizes are.

#define FLA_PART_TOKENS(TOKEN, RING)                                                   \
  TOKEN(q, required, kFloatTypes, "B T H K", "queries")                                \
  TOKEN(k, required, kFloatTypes, "B T H K", "keys")                                   \
  RING(ring_k, required, kFloatTypes, "P L H K", "the ring's keys as they were given") \
  TOKEN(v, required, kFloatTypes, "B T HV V", "values")                                \
  RING(ring_u, required, kRingTypes, "P L HV V", "what its keys have added to the state")

#define FLA_RING_G "the ring's gates as they were given"

/// Of the low-rank pair.
#define FLA_PART_RING_OF_PAIR(RING)                                              \
  RING(ring_b, required, kFloatTypes, "P L H K", "the ring's b as it was given") \
  RING(ring_w, required, kRingTypes, "P L HV V", "what its b have added to the state")

#define FLA_PART_BETA(TOKEN, DOCUMENTATION) TOKEN(beta, required, kFloatTypes, "B T HV", DOCUMENTATION)
#define FLA_RAW_BETA "how far a key is rewritten; raw with use_beta_sigmoid_in_kernel"

#define FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                              \
  NUMBER(scale, "factor of the output; 1/sqrt(K) when left out")                   \
  STATE(initial_state, optional, kStateTypes, "P HV K V; state_v_first: P HV V K", \
        "the state to start from")                                                 \
  FORWARD(FLAG(output_final_state, "return the state after the last token"))

#define FLA_PART_NORM(FLAG) FLAG(use_qk_l2norm_in_kernel, "normalise q and k: x * rsqrt(sum(x^2) + 1e-6)")

/// What g and beta go through in the kernel. FLA_PART_GATE_PARAMETERS belongs to it.
#define FLA_PART_GATE_AND_SIGMOID(NUMBER, FLAG)                                                \
  FLAG(use_gate_in_kernel, "g is -exp(A_log) * softplus(g + dt_bias), or as lower_bound says") \
  FLAG(use_beta_sigmoid_in_kernel, "beta is sigmoid(beta)")                                    \
  FLAG(allow_neg_eigval, "beta is doubled", use_beta_sigmoid_in_kernel)                        \
  FLAG(safe_gate, "with use_gate_in_kernel: lower_bound must be in [-5, 0)")                   \
  NUMBER(lower_bound, "with use_gate_in_kernel: g is lower_bound * sigmoid(exp(A_log) * (g + dt_bias))")

#define FLA_PART_PACKING(INDEX, FLAG, FORWARD)               \
  FLAG(state_v_first, "states are [V, K] instead of [K, V]") \
  FLA_PART_SEQUENCES(INDEX, FORWARD)                         \
  FORWARD(FLA_PART_KEPT_STATES(INDEX))

/// States on the way that go into the pool, and which of them the next call starts from.
#define FLA_PART_KEPT_STATES(INDEX)                                                                         \
  INDEX(checkpoint_indices, optional, kIndexTypes, "N C",                                                   \
        "the slots of the states' pool that a sequence's checkpoints go to; negative: not kept",            \
        checkpoint_every)                                                                                   \
  INDEX(num_accepted_tokens, optional, kIndexTypes, "N",                                                    \
        "how many tokens of the last step were accepted: a sequence starts from that one's checkpoint; 0: " \
        "from the slot that state_indices name",                                                            \
        checkpoint_indices)

/// Packed sequences, and the slots of a pool of states that they have.
#define FLA_PART_SEQUENCES(INDEX, FORWARD)                                                               \
  INDEX(cu_seqlens, optional, kIndexTypes, "N+1",                                                        \
        "where packed sequences begin, and at last where they end: at T or before it")                   \
  FORWARD(INDEX(state_indices, optional, kIndexTypes, "N",                                               \
                "the slot of the states' pool that a sequence reads; negative: the sequence is skipped") \
              INDEX(state_write_indices, optional, kIndexTypes, "N",                                     \
                    "the slot that a sequence writes, state_indices if left out; negative: not written", \
                    state_indices))

#define FLA_PART_GATE_PARAMETERS(TENSOR, BIAS_SHAPE)                          \
  TENSOR(A_log, optional, kFloatTypes, "HV",                                  \
         "logarithm of the gate's rate; with lower_bound it may be left out") \
  TENSOR(dt_bias, optional, kFloatTypes, BIAS_SHAPE, "added to g before the gate")

#define FLA_PART_OUT(OUTPUT) OUTPUT(out, kFloatTypes, "B T HV V", "", "memory for o, dtype of v")

#define FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)                                                         \
  FLA_PART_OUT(OUTPUT)                                                                                     \
  OUTPUT(final_state, kStateTypes, "P HV K V; state_v_first: P HV V K", "initial_state",                   \
         "memory for the final state, which is then returned; may be initial_state itself")                \
  FORWARD(INTEGER(checkpoint_every, "tokens of a sequence from one checkpoint to the next"))               \
  OUTPUT(checkpoints, kStateTypes, "N C HV K V; state_v_first: N C HV V K", "",                            \
         "memory for a sequence's states after every checkpoint_every of its tokens, the first C of them", \
         checkpoint_every)

// FLA_KEEP keeps a line of a list in a struct, FLA_NO_LINE leaves it out.
#define FLA_KEEP(...) __VA_ARGS__
#define FLA_NO_LINE(...)

/// The members of every struct that no table has.
#define FLA_PART_RUN                                                                  \
  /** for CUDA tensors; CPU kernels run on the calling thread and return when done */ \
  ::fla::Stream stream{};                                                             \
  /** for CUDA tensors, of workspace_size() bytes; without it the call allocates */   \
  ::fla::Workspace workspace{};

/// The members of the struct that an op's functions take, of its list.
#define FLA_RECURRENCE_MEMBERS(LIST)                                                           \
  LIST(FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_NO_LINE, FLA_MEMBER_INDEX, \
       FLA_MEMBER_OUTPUT, FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, FLA_MEMBER_FLAG, FLA_KEEP)    \
  FLA_PART_RUN
#define FLA_RETURN_RECURRENCE_TABLE(STRUCT, LIST)                                                           \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_NO_LINE, FLA_ROW_INDEX, \
                                FLA_ROW_OUTPUT, FLA_ROW_NUMBER, FLA_ROW_INTEGER, FLA_ROW_FLAG, FLA_KEEP))

namespace fla {
inline constexpr DTypeSet kSummaryTypes{DType::f32};
}  // namespace fla

// What a summary function is given beside the op's inputs, and where its results go.
#define FLA_PART_SUMMARY_UPSTREAM(TENSOR)                                                             \
  TENSOR(do_, optional, kFloatTypes, "B T HV V",                                                      \
         "the gradient of o: the summary is that of the gradients, from the last token to the first") \
  TENSOR(dht, optional, kStateTypes, "P HV K V; state_v_first: P HV V K",                             \
         "the gradient to start from, with do")
#define FLA_PART_SUMMARY(OUTPUT, FLAG, P_SHAPE)                                     \
  FLAG(output_P, "return P")                                                        \
  OUTPUT(R, kSummaryTypes, "N HV K V; state_v_first: N HV V K", "", "memory for R") \
  OUTPUT(P, kSummaryTypes, P_SHAPE, "", "memory for P, which is then returned")
/// Shapes of P: of additive ops, and of others.
#define FLA_DIAGONAL_P "N HV K"
#define FLA_SQUARE_P "N HV K K"

/// The members of the struct that an op's summary function takes, of the op's list.
#define FLA_SUMMARY_MEMBERS(LIST, P_SHAPE)                                                                  \
  LIST(FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_NO_LINE, FLA_MEMBER_INDEX, FLA_NO_LINE, \
       FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, FLA_MEMBER_FLAG, FLA_NO_LINE)                                 \
  FLA_PART_SUMMARY_UPSTREAM(FLA_MEMBER_TENSOR)                                                              \
  FLA_PART_SUMMARY(FLA_MEMBER_OUTPUT, FLA_MEMBER_FLAG, P_SHAPE)                                             \
  FLA_PART_RUN
#define FLA_RETURN_SUMMARY_TABLE(STRUCT, LIST, P_SHAPE)                                                     \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_NO_LINE, FLA_ROW_INDEX, \
                                FLA_NO_LINE, FLA_ROW_NUMBER, FLA_ROW_INTEGER, FLA_ROW_FLAG, FLA_NO_LINE)    \
                               FLA_PART_SUMMARY_UPSTREAM(FLA_ROW_TENSOR)                                    \
                                   FLA_PART_SUMMARY(FLA_ROW_OUTPUT, FLA_ROW_FLAG, P_SHAPE))

/// The gradients that a backward function is given.
#define FLA_PART_UPSTREAM(TENSOR)                                         \
  TENSOR(do_, required, kFloatTypes, "B T HV V", "the gradient of o")     \
  TENSOR(dht, optional, kStateTypes, "P HV K V; state_v_first: P HV V K", \
         "the gradient of the final state; zeros when left out")

// What a tensor of an op's list is to its backward function: memory for its gradient.
#define FLA_MEMBER_GRADIENT(name, need, types, shape, doc, ...) ::fla::TensorView d##name{};
#define FLA_ROW_GRADIENT(name, need, types, shape, doc, ...) \
  FLA_ROW(d##name, output, optional, types, shape, "", "memory for the gradient of " #name, name)

/// The members of the struct that an op's backward function takes, of the op's list: its inputs, the
/// gradients that come in, and memory for those that go out, called d and the input's name.
#define FLA_BACKWARD_MEMBERS(LIST)                                                                           \
  LIST(FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_MEMBER_TENSOR, FLA_NO_LINE, FLA_MEMBER_INDEX, FLA_NO_LINE,  \
       FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, FLA_MEMBER_FLAG, FLA_NO_LINE)                                  \
  FLA_PART_UPSTREAM(FLA_MEMBER_TENSOR)                                                                       \
  LIST(FLA_MEMBER_GRADIENT, FLA_MEMBER_GRADIENT, FLA_MEMBER_GRADIENT, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, \
       FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE)                                                   \
  FLA_PART_RUN
#define FLA_RETURN_BACKWARD_TABLE(STRUCT, LIST)                                                             \
  FLA_RETURN_TABLE(                                                                                         \
      STRUCT,                                                                                               \
      LIST(FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_ROW_TENSOR, FLA_NO_LINE, FLA_ROW_INDEX, FLA_NO_LINE,         \
           FLA_ROW_NUMBER, FLA_ROW_INTEGER, FLA_ROW_FLAG, FLA_NO_LINE) FLA_PART_UPSTREAM(FLA_ROW_TENSOR)    \
          LIST(FLA_ROW_GRADIENT, FLA_ROW_GRADIENT, FLA_ROW_GRADIENT, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, \
               FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE))

/// What a ring's line is to the functions that have one: memory that they read and write.
#define FLA_MEMBER_RING(name, need, types, shape, doc) ::fla::TensorView name{};
#define FLA_ROW_RING(name, need, types, shape, doc) FLA_ROW(name, output, need, types, shape, "", doc)
/// What describes gates to fold_<op>, whose rings may have them instead.
#define FLA_ROW_OPTIONAL(name, need, types, shape, doc, ...) \
  FLA_ROW_TENSOR(name, optional, types, shape, doc, __VA_ARGS__)

/// The pool whose slots have rings, and how far they are filled.
#define FLA_PART_REPLAYED(RING, INDEX)                                                                  \
  RING(state, required, kStateTypes, "P HV K V; state_v_first: P HV V K",                               \
       "the pool of states, written where rings are folded")                                            \
  INDEX(state_indices, optional, kIndexTypes, "N",                                                      \
        "the slot of the pool, and of rings, that a sequence has; negative: the sequence is skipped")   \
  INDEX(ring_begin, required, kIndexTypes, "B", "how many tokens of a sequence its state has taken in") \
  INDEX(ring_end, required, kIndexTypes, "B",                                                           \
        "how many tokens it has; its ring holds those from ring_begin on")

/// The members of the struct of replay_<op>, of the op's list …
#define FLA_REPLAY_MEMBERS(LIST)                                                                      \
  LIST(FLA_MEMBER_TENSOR, FLA_NO_LINE, FLA_MEMBER_TENSOR, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE,      \
       FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, FLA_MEMBER_FLAG, FLA_NO_LINE)                           \
  FLA_PART_REPLAYED(FLA_MEMBER_RING, FLA_MEMBER_INDEX)                                                \
  LIST(FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_MEMBER_RING, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, \
       FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE)                                                         \
  FLA_PART_OUT(FLA_MEMBER_OUTPUT)                                                                     \
  FLA_PART_RUN
#define FLA_RETURN_REPLAY_TABLE(STRUCT, LIST)                                                             \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_ROW_TENSOR, FLA_NO_LINE, FLA_ROW_TENSOR, FLA_NO_LINE, FLA_NO_LINE,    \
                                FLA_NO_LINE, FLA_ROW_NUMBER, FLA_ROW_INTEGER, FLA_ROW_FLAG, FLA_NO_LINE)  \
                               FLA_PART_REPLAYED(FLA_ROW_RING, FLA_ROW_INDEX)                             \
                                   LIST(FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_ROW_RING, FLA_NO_LINE, \
                                        FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE, FLA_NO_LINE)  \
                                       FLA_PART_OUT(FLA_ROW_OUTPUT))

/// … and of fold_<op>.
#define FLA_FOLD_MEMBERS(LIST)                                                                 \
  FLA_PART_REPLAYED(FLA_MEMBER_RING, FLA_MEMBER_INDEX)                                         \
  LIST(FLA_NO_LINE, FLA_NO_LINE, FLA_MEMBER_TENSOR, FLA_MEMBER_RING, FLA_NO_LINE, FLA_NO_LINE, \
       FLA_MEMBER_NUMBER, FLA_MEMBER_INTEGER, FLA_MEMBER_FLAG, FLA_NO_LINE)                    \
  FLA_PART_RUN
#define FLA_RETURN_FOLD_TABLE(STRUCT, LIST)                                                              \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_NO_LINE, FLA_NO_LINE, FLA_ROW_OPTIONAL, FLA_ROW_RING, FLA_NO_LINE,   \
                                FLA_NO_LINE, FLA_ROW_NUMBER, FLA_ROW_INTEGER, FLA_ROW_FLAG, FLA_NO_LINE) \
                               FLA_PART_REPLAYED(FLA_ROW_RING, FLA_ROW_INDEX))
