#include "fla/dispatch/choice/call_by_name.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/mix.h"
#include "tools/cases/random_case.h"

namespace {

using fla_test::add;
using fla_test::error_text;
using fla_test::MixArgs;

fla::cases::KdaCase some_kda(std::int64_t tokens) {
  return fla::cases::make_kda_case({.T = tokens, .H = 2, .K = 16, .V = 16});
}

TEST(Call, GoesToTheFunctionOfThatName) {
  EXPECT_EQ(fla::call("mix.mix_chunk", MixArgs{}).by, "original");
  EXPECT_EQ(fla::call("mix.mix_step", MixArgs{}).by, "original step");
}

TEST(Call, IsDispatchedAndCountedLikeACallByItsCppName) {
  const auto alpha =
      add({.name = "alpha_by_name", .verify = [](const MixArgs& args) {
             return args.K == 64 ? fla::accept() : fla::refuse("requires K=64, got {}", args.K);
           }});
  EXPECT_EQ(fla::call("mix.mix_chunk", MixArgs{.K = 64}).by, "alpha_by_name");
  EXPECT_EQ(fla::call("mix.mix_chunk", MixArgs{.K = 63}).by, "original");
  EXPECT_EQ(fla_test::counted("alpha_by_name").taken, 1u);
  const fla::ScopedPolicy policy({.deny = {{"alpha_by_name"}}});
  EXPECT_EQ(fla::call("mix.mix_chunk", MixArgs{.K = 64}).by, "original");
}

TEST(Call, ByTheOpsNameGoesThroughItsFrontDoor) {
  const fla::cases::KdaCase few = some_kda(2), many = some_kda(40);
  for (const char* name : {"kda", "kda.kda"}) {
    EXPECT_EQ(fla::resolve(name, few.args).backend(),
              fla::plan("kda", "fused_recurrent_kda", few.args).backend());
    const fla::KdaResult result = fla::call(name, many.args), expected = fla::kda(many.args);
    EXPECT_EQ(std::memcmp(result.o.data(), expected.o.data(), static_cast<std::size_t>(result.o.numel()) * 4),
              0);
  }
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  const std::uint64_t chunks = fla_test::counted("original", "chunk_kda", "kda").taken;
  const std::uint64_t steps = fla_test::counted("original", "fused_recurrent_kda", "kda").taken;
  (void)fla::call("kda", few.args);
  EXPECT_EQ(fla_test::counted("original", "chunk_kda", "kda").taken, chunks);
  EXPECT_EQ(fla_test::counted("original", "fused_recurrent_kda", "kda").taken, steps + 1);
  (void)fla::call("kda", many.args);
  EXPECT_EQ(fla_test::counted("original", "chunk_kda", "kda").taken, chunks + 1);
}

TEST(Call, ValidatesTheArguments) {
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("kda.chunk_kda", fla::KdaArgs{}); }),
            "kda: q: expected a tensor of shape [B, T, H, K], got none");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("kda", fla::KdaArgs{}); }),
            "kda: q: expected a tensor of shape [B, T, H, K], got none");
}

TEST(Call, SaysWhichNamesThereAre) {
  EXPECT_EQ(
      error_text<fla::InvalidArgument>([] { (void)fla::call("kdaa.chunk_kda", MixArgs{}); }),
      "op: expected one of common, delta_rule, dplr_delta_rule, gated_delta_rule, gated_delta_rule_step, "
      "gated_rms_norm, gla, iplr_delta_rule, kda, kda_step, lightning_attn, linear_attn, loading, merge, "
      "mix, retention, short_conv, simple_gla, got 'kdaa'");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("kda.chunk", fla::KdaArgs{}); }),
            "function: expected one of chunk_kda, fused_recurrent_kda, chunk_kda_backward, replay_kda, "
            "fold_kda, kda_summary, got 'chunk'");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("mix", MixArgs{}); }),
            "function: expected one of mix_chunk, mix_step, got 'mix'");
  for (const char* name : {"", ".", "kda.", ".chunk_kda", "kda.chunk_kda.now"}) {
    EXPECT_EQ(error_text<fla::InvalidArgument>([&] { (void)fla::call(name, fla::KdaArgs{}); }),
              "name: expected op.function or an op, got '" + std::string(name) + "'");
  }
}

TEST(Call, SaysWhichStructTheFunctionTakes) {
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("kda.chunk_kda", MixArgs{}); }),
            "args: expected fla::KdaArgs, the arguments of kda.chunk_kda, got fla_test::MixArgs");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("mix.mix_chunk", fla::KdaArgs{}); }),
            "args: expected fla_test::MixArgs, the arguments of mix.mix_chunk, got fla::KdaArgs");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::call("mix", fla::KdaArgs{}); }),
            "args: expected the arguments of op mix, got fla::KdaArgs, which belong to chunk_kda");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)fla::resolve("mix.mix_chunk", fla::KdaArgs{}); }),
            "args: expected fla_test::MixArgs, the arguments of mix.mix_chunk, got fla::KdaArgs");
}

TEST(Resolve, ChoosesOnce) {
  const auto alpha = add({.name = "alpha_resolved", .priority = 2});
  const fla::Plan<MixArgs> chosen = fla::resolve("mix.mix_chunk", MixArgs{});
  EXPECT_EQ(chosen.backend(), "alpha_resolved");
  const auto beta = add({.name = "beta_resolved", .priority = 1});
  EXPECT_EQ(chosen(MixArgs{}).by, "alpha_resolved");
  EXPECT_EQ(fla::resolve("mix.mix_chunk", MixArgs{})(MixArgs{}).by, "beta_resolved");
  EXPECT_EQ(fla::resolve("mix.mix_step", MixArgs{}).backend(), "original");
}

}  // namespace
