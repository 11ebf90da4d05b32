#pragma once

#include "fla/ops/recurrence/parts.h"

/// The parts that the lists of arguments of steps are made of, as in fla/ops/recurrence/parts.h. POOLs are
/// read and written. G: the shape of gates and its documentation; BIAS: the shape of dt_bias.

#define FLA_STEP_ARGUMENTS(TENSOR, POOL, INDEX, OUTPUT, NUMBER, FLAG, G_SHAPE, G_DOC, BIAS_SHAPE)    \
  TENSOR(x, required, kFloatTypes, "B T D",                                                          \
         "what becomes q, k and v, one behind the other: D = 2 H K + HV V; T = 1")                   \
  TENSOR(conv_weight, required, kFloatTypes, "D W",                                                  \
         "the convolution's factors of a token and of those before it, its own last")                \
  POOL(conv_state, required, kFloatTypes, "P D W-1", "the pool of last inputs, the newest last")     \
  TENSOR(g, required, kFloatTypes, G_SHAPE, G_DOC)                                                   \
  FLA_PART_BETA(TENSOR, FLA_RAW_BETA)                                                                \
  TENSOR(z, required, kFloatTypes, "B T HV V", "raw gates of the norm")                              \
  POOL(state, required, kStateTypes, "P HV K V; state_v_first: P HV V K", "the pool of states")      \
  TENSOR(conv_bias, optional, kFloatTypes, "D", "added to the convolution's sums")                   \
  FLA_PART_GATE_PARAMETERS(TENSOR, BIAS_SHAPE)                                                       \
  TENSOR(norm_weight, optional, kFloatTypes, "V", "the norm's factor of a channel; 1 when left out") \
  NUMBER(scale, "factor of what the recurrence answers; 1/sqrt(K) when left out")                    \
  FLA_PART_NORM(FLAG)                                                                                \
  FLA_PART_GATE_AND_SIGMOID(NUMBER, FLAG)                                                            \
  FLAG(state_v_first, "states are [V, K] instead of [K, V]")                                         \
  NUMBER(norm_eps, "added to the mean of squares; 1e-6 when left out")                               \
  FLAG(norm_use_sigmoid, "the norm's gate is sigmoid(z) instead of z * sigmoid(z)")                  \
  INDEX(state_indices, optional, kIndexTypes, "N",                                                   \
        "the slot of both pools that a sequence has; negative: the sequence is skipped")             \
  OUTPUT(out, kFloatTypes, "B T HV V", "", "memory for the result, dtype of z")

/// The members of a step's struct, of its list …
#define FLA_STEP_MEMBERS(LIST)                                                                     \
  LIST(FLA_MEMBER_TENSOR, FLA_MEMBER_RING, FLA_MEMBER_INDEX, FLA_MEMBER_OUTPUT, FLA_MEMBER_NUMBER, \
       FLA_MEMBER_FLAG)                                                                            \
  FLA_PART_RUN
/// … and its table.
#define FLA_RETURN_STEP_TABLE(STRUCT, LIST)                                                                  \
  FLA_RETURN_TABLE(STRUCT, LIST(FLA_ROW_TENSOR, FLA_ROW_RING, FLA_ROW_INDEX, FLA_ROW_OUTPUT, FLA_ROW_NUMBER, \
                                FLA_ROW_FLAG))
