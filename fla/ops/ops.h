#pragma once

#include "fla/ops/common/stages.h"
#include "fla/ops/delta_rule/delta_rule.h"
#include "fla/ops/dplr_delta_rule/dplr_delta_rule.h"
#include "fla/ops/gated_delta_rule/gated_delta_rule.h"
#include "fla/ops/gated_delta_rule_step/gated_delta_rule_step.h"
#include "fla/ops/gated_rms_norm/gated_rms_norm.h"
#include "fla/ops/gla/gla.h"
#include "fla/ops/iplr_delta_rule/iplr_delta_rule.h"
#include "fla/ops/kda/kda.h"
#include "fla/ops/kda_step/kda_step.h"
#include "fla/ops/lightning_attn/lightning_attn.h"
#include "fla/ops/linear_attn/linear_attn.h"
#include "fla/ops/merge/merge.h"
#include "fla/ops/retention/retention.h"
#include "fla/ops/rwkv7/rwkv7.h"
#include "fla/ops/short_conv/short_conv.h"
#include "fla/ops/simple_gla/simple_gla.h"

/// The ops of the family, one line an op: OP(name, struct of arguments). What works for all of them walks it:
/// cases, reference, conformance, fuzzer, golden tests, benchmarks, Python and documents.
#define FLA_RECURRENCE_OPS(OP)             \
  OP(kda, KdaArgs)                         \
  OP(gated_delta_rule, GatedDeltaRuleArgs) \
  OP(delta_rule, DeltaRuleArgs)            \
  OP(gla, GlaArgs)                         \
  OP(simple_gla, SimpleGlaArgs)            \
  OP(retention, RetentionArgs)             \
  OP(lightning_attn, LightningAttnArgs)    \
  OP(linear_attn, LinearAttnArgs)          \
  OP(dplr_delta_rule, DplrDeltaRuleArgs)   \
  OP(iplr_delta_rule, IplrDeltaRuleArgs)

/// The ops of a layer around its recurrence, one function each, likewise.
#define FLA_LAYER_OPS(OP)       \
  OP(short_conv, ShortConvArgs) \
  OP(gated_rms_norm, GatedRmsNormArgs)

/// Steps of whole layers, likewise.
#define FLA_STEP_OPS(OP)    \
  OP(kda_step, KdaStepArgs) \
  OP(gated_delta_rule_step, GatedDeltaRuleStepArgs)
