#include "tools/cases/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fla/ops/kda/kda.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/kda_random.h"

namespace fla::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

std::string golden(const std::string& name) {
  return std::string(FLA_GOLDEN_DIR) + "/" + name + ".safetensors";
}

/// The tensors of a small call, under their names.
std::vector<NamedTensor> small_call() {
  const KdaCase made = make_kda_case({.T = 3, .H = 1, .K = 4, .V = 4});
  std::vector<NamedTensor> tensors;
  for (const Argument& argument : KdaArgs::arguments()) {
    if (!argument.is_tensor()) continue;
    const TensorView& view = argument.tensor(static_cast<const void*>(&made.args));
    if (!view.defined()) continue;
    for (const Tensor& memory : made.memory) {
      if (memory.data() == view.data()) {
        tensors.push_back({std::string(argument.name), Tensor::over(view, std::make_shared<Tensor>(memory))});
      }
    }
  }
  return tensors;
}

TEST(Case, TakesOptionsFromTheMetadata) {
  const Case call = read_case(golden("kda_fused_lower_bound_bf16"));
  const KdaArgs& args = call.args_as<KdaArgs>();
  EXPECT_EQ(call.op->name, "kda");
  EXPECT_TRUE(args.use_gate_in_kernel && args.use_qk_l2norm_in_kernel && args.state_v_first &&
              args.safe_gate);
  EXPECT_FALSE(args.allow_neg_eigval);
  EXPECT_EQ(args.lower_bound, -5.0f);
  EXPECT_EQ(args.scale, std::nullopt);
  EXPECT_NO_THROW(validate(call));
}

TEST(Case, AsksForAResultThatIsExpected) {
  EXPECT_TRUE(read_case(golden("kda_decode_f32")).args_as<KdaArgs>().output_final_state);
}

TEST(Case, NamesExpectationsThatTheOpDoesNotReturn) {
  const Case call = read_case(golden("kda_f32_grad"));
  EXPECT_THAT(call.not_compared, ElementsAre("dbeta", "dg", "dinitial_state", "dk", "dq", "dv"));
  EXPECT_THAT(call.warnings, IsEmpty());
}

TEST(Case, WarnsAboutWhatMeansNothingToTheOp) {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = small_call();
  tensors.push_back({"extra", Tensor::zeros({2}, DType::f32)});
  write_safetensors(folder / "a", tensors, {{"op", "kda"}, {"format", "pt"}, {"colour", "red"}});
  EXPECT_THAT(read_case(folder / "a").warnings,
              ElementsAre("__metadata__ 'colour' is no option of kda and is ignored",
                          "tensor 'extra' is no input of kda and is ignored"));
}

TEST(Case, NeedsAnOpFromTheFileOrTheCaller) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", small_call());
  EXPECT_THROW(read_case(folder / "a"), FileError);
  EXPECT_NO_THROW(validate(read_case(folder / "a", "kda")));
}

TEST(SetOption, KnowsFlagsAndNumbersAlone) {
  KdaArgs args;
  set_option(KdaArgs::arguments(), &args, "scale", "0.25");
  set_option(KdaArgs::arguments(), &args, "safe_gate", "1");
  EXPECT_EQ(args.scale, 0.25f);
  EXPECT_TRUE(args.safe_gate);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "q", "1"), InvalidArgument);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "safe_gate", "maybe"), InvalidArgument);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "scale", "0.25x"), InvalidArgument);
}

}  // namespace
}  // namespace fla::cases
