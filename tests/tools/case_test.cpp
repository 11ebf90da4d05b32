#include "tools/cases/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fla/ops/kda/kda.h"
#include "fla/ops/lightning_attn/lightning_attn.h"
#include "tests/core/error_text.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"

namespace fla::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

std::string golden(const std::string& name) {
  return std::string(FLA_GOLDEN_DIR) + "/" + name + ".safetensors";
}

/// The tensors of a small call, under their names.
std::vector<NamedTensor> small_call(const KdaSpec& spec = {.T = 3, .H = 1, .K = 4, .V = 4}) {
  const KdaCase made = make_kda_case(spec);
  std::vector<NamedTensor> tensors;
  for (const Argument& argument : KdaArgs::arguments()) {
    if (!argument.is_tensor() || argument.kind == ArgumentKind::output) continue;
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

TEST(Case, IsReadForEitherDirection) {
  const Case call = read_case(golden("kda_f32_grad"));
  EXPECT_THAT(call.of_other_direction, ElementsAre("dbeta", "dg", "dinitial_state", "dk", "dq", "dv"));
  EXPECT_THAT(call.not_compared, IsEmpty());
  EXPECT_THAT(call.warnings, IsEmpty());
  const Case back = read_case(golden("kda_f32_grad"), "", {}, fla::cases::Direction::backward);
  EXPECT_EQ(back.op->title, "kda.chunk_kda_backward");
  EXPECT_EQ(back.expected.size(), 6u);
  EXPECT_THAT(back.of_other_direction, ElementsAre("final_state", "o"));
  EXPECT_THAT(back.warnings, IsEmpty());
  EXPECT_NO_THROW(validate(back));
}

TEST(Case, NamesExpectationsThatTheOpDoesNotReturn) {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = small_call();
  tensors.push_back({"expect.colour", Tensor::zeros({2}, DType::f32)});
  write_safetensors(folder / "a", tensors, {{"op", "kda"}});
  EXPECT_THAT(read_case(folder / "a").not_compared, ElementsAre("colour"));
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

/// A file with four sequences over a pool of nine slots.
std::vector<NamedTensor> pooled_call() {
  return small_call({.B = 4, .T = 2, .H = 1, .K = 4, .V = 4, .pool = 9, .write_indices = true});
}

TEST(Case, HasAPoolToWriteToWhereItNamesSlots) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", pooled_call(), {{"op", "kda"}, {"output_final_state", "1"}});
  const Case call = read_case(folder / "a");
  EXPECT_THAT(call.warnings, IsEmpty());
  EXPECT_NO_THROW(validate(call));
  const KdaArgs& args = call.args_as<KdaArgs>();
  ASSERT_TRUE(args.state_indices.defined() && args.state_write_indices.defined() &&
              args.final_state.defined());
  EXPECT_NE(args.final_state.data(), args.initial_state.data()) << "the input stays as it is";
  const Reference reference = reference_of(args);
  for (const std::string_view function : call.op->functions) {
    const std::vector<NamedTensor> results = run(call, function);
    ASSERT_EQ(results.size(), 2u);
    EXPECT_LT(errors_of({results[0].tensor, results[1].tensor}, reference).worst(), 2e-5) << function;
    for (std::int64_t slot = 0; slot < 9; ++slot) {
      if (std::ranges::count(reference.slots, slot) > 0) continue;
      EXPECT_EQ(
          relative_error(results[1].tensor.view().slice(0, slot, 1), args.initial_state.slice(0, slot, 1)), 0)
          << "slot " << slot;
    }
  }
}

TEST(Case, ShowsWhatARunWroteItself) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", pooled_call(), {{"op", "kda"}, {"output_final_state", "1"}});
  const Case call = read_case(folder / "a");
  const std::vector<NamedTensor> results = run(call, "chunk_kda");
  const KdaArgs& args = call.args_as<KdaArgs>();
  ASSERT_NE(relative_error(results[1].tensor, args.initial_state), 0);
  for (std::int64_t n = 0; n < 4; ++n) args.state_indices.as<std::int64_t>()[n] = -1;
  EXPECT_EQ(relative_error(run(call, "chunk_kda")[1].tensor, args.initial_state), 0) << "nothing was written";
}

TEST(Case, HasAPoolOfZerosInTheShapeOfWhatIsExpected) {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = pooled_call();
  std::erase_if(tensors, [](const NamedTensor& each) { return each.name == "initial_state"; });
  write_safetensors(folder / "a", tensors, {{"op", "kda"}, {"output_final_state", "1"}});
  EXPECT_THROW(validate(read_case(folder / "a")), FileError) << "nobody says how many slots there are";
  tensors.push_back({"expect.final_state", Tensor::zeros({9, 1, 4, 4}, DType::f32)});
  write_safetensors(folder / "a", tensors, {{"op", "kda"}});
  const Case call = read_case(folder / "a");
  EXPECT_NO_THROW(validate(call));
  EXPECT_EQ(run(call, "chunk_kda")[1].tensor.size(0), 9);
}

TEST(Case, HasAPoolOnceTheOptionAsksForOne) {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = pooled_call();
  std::erase_if(tensors, [](const NamedTensor& each) { return each.name == "state_write_indices"; });
  write_safetensors(folder / "a", tensors, {{"op", "kda"}});
  Case call = read_case(folder / "a");
  EXPECT_NO_THROW(validate(call));
  EXPECT_EQ(run(call, "chunk_kda").size(), 1u) << "states are read, nobody asks for what becomes of them";
  set_option(call.op->arguments, call.args.get(), "output_final_state", "1");
  EXPECT_THROW(validate(call), FileError);
  give_pools(call);
  EXPECT_NO_THROW(validate(call));
  EXPECT_EQ(run(call, "chunk_kda").size(), 2u);
  set_option(call.op->arguments, call.args.get(), "output_final_state", "0");
  give_pools(call);
  EXPECT_EQ(run(call, "chunk_kda").size(), 1u);
}

TEST(SetOption, KnowsFlagsAndNumbers) {
  KdaArgs args;
  set_option(KdaArgs::arguments(), &args, "scale", "0.25");
  set_option(KdaArgs::arguments(), &args, "safe_gate", "1");
  EXPECT_EQ(args.scale, 0.25f);
  EXPECT_TRUE(args.safe_gate);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "q", "1"), InvalidArgument);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "safe_gate", "maybe"), InvalidArgument);
  EXPECT_THROW(set_option(KdaArgs::arguments(), &args, "scale", "0.25x"), InvalidArgument);
}

TEST(SetOption, IntegersAreWhole) {
  LightningAttnArgs args;
  const auto set = [&](const char* value) {
    set_option(LightningAttnArgs::arguments(), &args, "num_layers", value);
  };
  set("24");
  EXPECT_EQ(args.num_layers, 24);
  set("-3");
  EXPECT_EQ(args.num_layers, -3);
  for (const std::string value : {"2.5", "24.0", "many", "", "9223372036854775808"}) {
    EXPECT_EQ(fla_test::error_text<InvalidArgument>([&] { set(value.c_str()); }),
              "num_layers: expected a whole number, got '" + value + "'");
  }
}

}  // namespace
}  // namespace fla::cases
