#include "fla/ops/rwkv7/rwkv7.h"

#include <gtest/gtest.h>

#include "tests/core/error_text.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DplrDeltaRuleArgs;
using fla::Rwkv7Args;

Rwkv7Args rwkv7_of(const DplrDeltaRuleArgs& args) {
  return {.r = args.q,
          .w = args.g,
          .k = args.k,
          .v = args.v,
          .a = args.a,
          .b = args.b,
          .initial_state = args.initial_state,
          .output_final_state = true};
}

TEST(Rwkv7, IsDplrDeltaRuleWithAScaleOfOne) {
  const auto made = fla::cases::make_case<DplrDeltaRuleArgs>({.B = 2, .T = 21, .K = 32, .V = 16});
  DplrDeltaRuleArgs args = made.args;
  args.scale = 1.0f;
  const Rwkv7Args call = rwkv7_of(args);
  using fla::conformance::same_bits;
  EXPECT_TRUE(same_bits(fla::rwkv7(call), fla::dplr_delta_rule(args)));
  EXPECT_TRUE(same_bits(fla::chunk_rwkv7(call), fla::chunk_dplr_delta_rule(args)));
  EXPECT_TRUE(same_bits(fla::fused_recurrent_rwkv7(call), fla::fused_recurrent_dplr_delta_rule(args)));
  EXPECT_EQ(fla::workspace_size(call), 0u);
}

TEST(Rwkv7, StartsFromTheDraftsThatWereAccepted) {
  const auto step = [](auto&& run) {
    auto made = fla::cases::make_case<DplrDeltaRuleArgs>({.B = 3,
                                                          .T = 4,
                                                          .K = 32,
                                                          .V = 16,
                                                          .pool = 20,
                                                          .options = {.checkpoint_every = 1},
                                                          .checkpoint_indices = true,
                                                          .accepted_tokens = true});
    made.args.scale = 1.0f;
    made.args.final_state = made.args.initial_state;
    run(made.args);
    return fla::conformance::bytes_of(made.args.initial_state);
  };
  const auto expected =
      step([](const DplrDeltaRuleArgs& args) { (void)fla::fused_recurrent_dplr_delta_rule(args); });
  EXPECT_EQ(step([](const DplrDeltaRuleArgs& args) {
              Rwkv7Args call = rwkv7_of(args);
              call.state_indices = args.state_indices;
              call.checkpoint_indices = args.checkpoint_indices;
              call.num_accepted_tokens = args.num_accepted_tokens;
              call.final_state = args.final_state;
              call.checkpoint_every = args.checkpoint_every;
              (void)fla::fused_recurrent_rwkv7(call);
            }),
            expected);
  EXPECT_NE(step([](const DplrDeltaRuleArgs&) {}), expected);
}

TEST(Rwkv7, ErrorsHaveItsNames) {
  const auto made = fla::cases::make_case<DplrDeltaRuleArgs>({.T = 3, .K = 8, .V = 8});
  const auto error_of = [&](fla::TensorView Rwkv7Args::*member) {
    Rwkv7Args call = rwkv7_of(made.args);
    call.*member = {};
    return fla_test::error_text<fla::InvalidArgument>([&] { (void)fla::rwkv7(call); });
  };
  EXPECT_EQ(error_of(&Rwkv7Args::r).substr(0, 10), "rwkv7: r: ");
  EXPECT_EQ(error_of(&Rwkv7Args::w).substr(0, 10), "rwkv7: w: ");
  EXPECT_EQ(error_of(&Rwkv7Args::k).substr(0, 10), "rwkv7: k: ");
  EXPECT_EQ(error_of(&Rwkv7Args::a).substr(0, 10), "rwkv7: a: ");
}

TEST(Rwkv7, HasTheGradientsOfDplrDeltaRule) {
  const fla::cases::BackwardCase<DplrDeltaRuleArgs> made({.T = 21, .K = 32, .V = 16});
  fla::DplrDeltaRuleBackwardArgs args = made.args;
  args.scale = 1.0f;
  fla::Rwkv7BackwardArgs call{.r = args.q,
                              .w = args.g,
                              .k = args.k,
                              .v = args.v,
                              .a = args.a,
                              .b = args.b,
                              .initial_state = args.initial_state,
                              .do_ = args.do_,
                              .dht = args.dht};
  const auto expected = fla::cases::named_gradients(fla::chunk_dplr_delta_rule_backward(args)),
             gradients = fla::cases::named_gradients(fla::chunk_rwkv7_backward(call));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(fla::conformance::bytes_of(expected[i].second),
              fla::conformance::bytes_of(gradients[i].second));
  EXPECT_EQ(fla::workspace_size(call), 0u);
  const fla::Tensor wrong = fla::Tensor::empty({1}, fla::DType::f32);
  call.dw = wrong;
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] {
              (void)fla::chunk_rwkv7_backward(call);
            }).substr(0, 11),
            "rwkv7: dw: ");
}

}  // namespace
