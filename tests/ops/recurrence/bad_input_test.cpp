#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>

#include "fla/core/errors.h"
#include "fla/ops/ops.h"

namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;

const Tensor& tokens() {  // [B, T, H, K], and so on
  static const Tensor made = Tensor::zeros({1, 3, 2, 4}, DType::f32);
  return made;
}
const Tensor& scalars() {
  static const Tensor made = Tensor::zeros({1, 3, 2}, DType::f32);
  return made;
}
const Tensor& heads() {
  static const Tensor made = Tensor::zeros({2}, DType::f32);
  return made;
}

/// Expects every function of the op to refuse the call in these words.
template <class Args>
void expect_refusal(const Args& args, fla::RecurrenceResult (*chunk)(const Args&),
                    fla::RecurrenceResult (*recurrent)(const Args&), const std::string& words) {
  for (auto* const run : {chunk, recurrent}) {
    try {
      run(args);
      ADD_FAILURE() << "took it: " << words;
    } catch (const fla::InvalidArgument& error) {
      EXPECT_EQ(error.what(), std::string(Args::kOp.name) + ": " + words);
    }
  }
}

TEST(GatedDeltaRuleBadInput, AGateHasNoChannels) {
  fla::GatedDeltaRuleArgs args{.q = tokens(), .k = tokens(), .v = tokens(), .g = tokens(), .beta = scalars()};
  const auto refuses = [&](const std::string& words) {
    expect_refusal(args, &fla::chunk_gated_delta_rule, &fla::fused_recurrent_gated_delta_rule, words);
  };
  refuses("g: expected shape [B=1, T=3, HV=2], got [1, 3, 2, 4]");
  args.g = {};
  refuses("g: expected a tensor of shape [B=1, T=3, HV=2], got none");
  args.g = scalars();
  args.beta = {};
  refuses("beta: expected a tensor of shape [B=1, T=3, HV=2], got none");
  args.beta = scalars();
  args.use_gate_in_kernel = true;
  refuses("A_log: expected a tensor of shape [HV] with use_gate_in_kernel and no lower_bound, got none");
  args.A_log = heads();
  args.dt_bias = tokens();
  refuses("dt_bias: expected shape [HV=2], got [1, 3, 2, 4]");
  args.dt_bias = heads();
  args.lower_bound = 1.0f;
  refuses("lower_bound: expected a negative value, got 1.000000");
  args.lower_bound = {};
  args.allow_neg_eigval = true;
  refuses("use_beta_sigmoid_in_kernel: expected true with allow_neg_eigval, got false");
}

TEST(DeltaRuleBadInput, NeedsBeta) {
  fla::DeltaRuleArgs args{.q = tokens(), .k = tokens(), .v = tokens()};
  expect_refusal(args, &fla::chunk_delta_rule, &fla::fused_recurrent_delta_rule,
                 "beta: expected a tensor of shape [B=1, T=3, HV=2], got none");
}

TEST(GlaBadInput, AGateHasChannels) {
  fla::GlaArgs args{.q = tokens(), .k = tokens(), .v = tokens(), .g = scalars()};
  expect_refusal(args, &fla::chunk_gla, &fla::fused_recurrent_gla,
                 "g: expected shape [B=1, T=3, HV=2, K=4], got [1, 3, 2]");
}

TEST(SimpleGlaBadInput, TakesOneOfTwoGates) {
  fla::SimpleGlaArgs args{.q = tokens(), .k = tokens(), .v = tokens()};
  const auto refuses = [&](const std::string& words) {
    expect_refusal(args, &fla::chunk_simple_gla, &fla::fused_recurrent_simple_gla, words);
  };
  refuses("g: expected g or g_gamma, got neither");
  args.g = scalars();
  args.g_gamma = heads();
  refuses("g_gamma: expected none with g, got both");
  args.g_gamma = {};
  args.g = tokens();
  refuses("g: expected shape [B=1, T=3, HV=2], got [1, 3, 2, 4]");
  args.g = {};
  args.g_gamma = scalars();
  refuses("g_gamma: expected shape [HV=2], got [1, 3, 2]");
}

TEST(LightningAttnBadInput, KnowsItsLayer) {
  fla::LightningAttnArgs args{.q = tokens(), .k = tokens(), .v = tokens()};
  const auto refuses = [&](const std::string& words) {
    expect_refusal(args, &fla::chunk_lightning_attn, &fla::fused_recurrent_lightning_attn, words);
  };
  refuses("num_layers: expected a whole number of at least 1, got none");
  args.num_layers = 0;
  refuses("num_layers: expected a whole number of at least 1, got 0");
  args.num_layers = 24;
  refuses("layer_idx: expected a whole number from 0 to 23, got none");
  args.layer_idx = -1;
  refuses("layer_idx: expected a whole number from 0 to 23, got -1");
  args.layer_idx = 24;
  refuses("layer_idx: expected a whole number from 0 to 23, got 24");
}

TEST(CheckpointsBadInput, IsRefusedByName) {
  const Tensor states = Tensor::zeros({1, 2, 2, 4, 4}, DType::f32);
  const fla::RetentionArgs good{
      .q = tokens(), .k = tokens(), .v = tokens(), .checkpoint_every = 1, .checkpoints = states};
  const auto refuses = [&](const std::string& words, auto spoil) {
    fla::RetentionArgs args = good;
    spoil(args);
    expect_refusal(args, &fla::chunk_retention, &fla::fused_recurrent_retention, words);
    expect_refusal(args, &fla::retention, &fla::original::chunk_retention, words);
  };
  const auto with = [](const TensorView& checkpoints) {
    return [checkpoints](fla::RetentionArgs& args) { args.checkpoints = checkpoints; };
  };
  const std::string shape = "[N=1, C=2, HV=2, K=4, V=4]";
  refuses("checkpoint_every: expected at least 1, got 0", [](auto& args) { args.checkpoint_every = 0; });
  refuses("checkpoint_every: expected at least 1, got -3", [](auto& args) { args.checkpoint_every = -3; });
  refuses("checkpoint_every: expected a whole number with checkpoints, got none",
          [](auto& args) { args.checkpoint_every = {}; });
  refuses(
      "checkpoints: expected a tensor, or checkpoint_indices in its place, with checkpoint_every, got "
      "neither",
      with({}));
  refuses("checkpoints: expected shape [N=1, C, HV=2, K=4, V=4], got [1, 2, 4, 4]",
          with({states.data(), DType::f32, {1, 2, 4, 4}}));
  refuses("checkpoints: expected shape " + shape + ", got [1, 2, 4, 4, 2]",
          with({states.data(), DType::f32, {1, 2, 4, 4, 2}}));
  refuses("checkpoints: expected shape [N=1, C, HV=2, K=4, V=4], got [2, 1, 2, 4, 4]",
          with({states.data(), DType::f32, {2, 1, 2, 4, 4}}));
  refuses("checkpoints: expected dtype bf16 or f32, got f16",
          with({states.data(), DType::f16, {1, 2, 2, 4, 4}}));
  refuses("checkpoints: expected device cpu, got cuda:0",
          with({states.data(), DType::f32, {1, 2, 2, 4, 4}, {fla::DeviceType::cuda, 0}}));
  refuses("checkpoints: expected f32[1, 2, 2, 4, 4] on cpu, got a null pointer",
          with({nullptr, DType::f32, {1, 2, 2, 4, 4}}));
  refuses("checkpoints: expected every element in a place of its own, got stride 0 at axis 1",
          with({states.data(), DType::f32, states.shape(), std::array<std::int64_t, 5>{64, 0, 16, 4, 1}}));
  refuses("checkpoints: expected memory of its own, got some that overlaps q",
          with({tokens().data(), DType::f32, {1, 2, 2, 4, 4}}));
  refuses("checkpoints: expected memory of its own, got some that overlaps final_state", [&](auto& args) {
    args.final_state = {states.data(), DType::f32, {1, 2, 4, 4}};
  });
  refuses("checkpoints: expected memory of its own, got some that overlaps out", [&](auto& args) {
    args.out = {states.data(), DType::f32, {1, 3, 2, 4}};
  });
}

TEST(CheckpointsBadInput, SlotsAreRefusedByName) {
  const Tensor pool = Tensor::zeros({6, 2, 4, 4}, DType::f32);
  const Tensor tokens_of_two = Tensor::zeros({2, 3, 2, 4}, DType::f32);
  std::array<std::int64_t, 2> read{0, 1}, accepted{0, 3}, write{-1, -1};
  std::array<std::int32_t, 6> slots{2, -1, 3, 4, 1, 5};
  const auto refuses = [&](const std::string& words, auto spoil) {
    const auto right = std::tuple(read, accepted, write, slots);
    fla::RetentionArgs args{.q = tokens_of_two,
                            .k = tokens_of_two,
                            .v = tokens_of_two,
                            .initial_state = pool,
                            .state_indices = {read.data(), DType::i64, {2}},
                            .state_write_indices = {write.data(), DType::i64, {2}},
                            .checkpoint_indices = {slots.data(), DType::i32, {2, 3}},
                            .num_accepted_tokens = {accepted.data(), DType::i64, {2}},
                            .final_state = pool,
                            .checkpoint_every = 1};
    EXPECT_NO_THROW(fla::validate_arguments(args)) << words;
    spoil(args);
    expect_refusal(args, &fla::chunk_retention, &fla::fused_recurrent_retention, words);
    expect_refusal(args, &fla::retention, &fla::original::chunk_retention, words);
    std::tie(read, accepted, write, slots) = right;
  };
  refuses("checkpoints: expected none with checkpoint_indices, got both", [&](auto& args) {
    static const Tensor states = Tensor::zeros({2, 3, 2, 4, 4}, DType::f32);
    args.checkpoints = states;
  });
  refuses("checkpoint_every: expected a whole number with checkpoint_indices, got none",
          [](auto& args) { args.checkpoint_every = {}; });
  refuses("checkpoint_every: expected 1 with num_accepted_tokens, got 2",
          [](auto& args) { args.checkpoint_every = 2; });
  refuses("checkpoint_indices: expected a tensor of shape [N=2, C] with num_accepted_tokens, got none",
          [](auto& args) { args.checkpoint_indices = {}; });
  refuses("state_indices: expected a tensor of shape [N=2] with checkpoint_indices, got none",
          [](auto& args) { args.state_indices = args.state_write_indices = {}; });
  refuses("initial_state: expected the pool that states are read from, got none",
          [](auto& args) { args.initial_state = {}; });
  refuses("final_state: expected the pool that checkpoint_indices name slots of, got none",
          [](auto& args) { args.final_state = args.state_write_indices = {}; });
  refuses("checkpoint_indices: expected shape [N=2, C], got [3, 2]", [&](auto& args) {
    args.checkpoint_indices = {slots.data(), DType::i32, {3, 2}};
  });
  refuses("num_accepted_tokens: expected shape [N=2], got [1]", [&](auto& args) {
    args.num_accepted_tokens = {accepted.data(), DType::i64, {1}};
  });
  refuses("checkpoint_indices: expected entries below P=6, got checkpoint_indices[1, 0]=6",
          [&](auto&) { slots[3] = 6; });
  refuses("num_accepted_tokens: expected entries from 0 to C=3, got num_accepted_tokens[0]=4",
          [&](auto&) { accepted[0] = 4; });
  refuses("num_accepted_tokens: expected entries from 0 to C=3, got num_accepted_tokens[1]=-1",
          [&](auto&) { accepted[1] = -1; });
  refuses(
      "checkpoint_indices: expected a slot where a sequence starts from it, got checkpoint_indices[0, 1]=-1 "
      "and "
      "num_accepted_tokens[0]=2",
      [&](auto&) { accepted[0] = 2; });
  refuses(
      "checkpoint_indices: expected slots that are written once, got checkpoint_indices[0, 2]=3 and "
      "checkpoint_indices[1, 2]=3",
      [&](auto&) { slots[5] = 3; });
  refuses(
      "checkpoint_indices: expected slots that are written once, got checkpoint_indices[0, 0]=2 and "
      "checkpoint_indices[0, 2]=2",
      [&](auto&) { slots[2] = 2; });
  refuses(
      "checkpoint_indices: expected slots that are written once, got state_write_indices[0]=4 and "
      "checkpoint_indices[1, 0]=4",
      [&](auto&) { write[0] = 4; });
  refuses(
      "checkpoint_indices: expected slots that no other sequence reads, got checkpoint_indices[1, 1]=0 and "
      "state_indices[0]=0",
      [&](auto&) { slots[4] = 0; });
}

TEST(DplrDeltaRuleBadInput, NeedsBothOfThePair) {
  fla::DplrDeltaRuleArgs args{.q = tokens(), .k = tokens(), .v = tokens(), .a = tokens(), .g = tokens()};
  const auto refuses = [&](const std::string& words) {
    expect_refusal(args, &fla::chunk_dplr_delta_rule, &fla::fused_recurrent_dplr_delta_rule, words);
  };
  refuses("b: expected a tensor of shape [B=1, T=3, H=2, K=4], got none");
  args.b = scalars();
  refuses("b: expected shape [B=1, T=3, H=2, K=4], got [1, 3, 2]");
  args.a = {};
  args.b = tokens();
  refuses("a: expected a tensor of shape [B=1, T=3, H=2, K=4], got none");
}

}  // namespace
