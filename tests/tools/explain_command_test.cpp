#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/absent_device.h"
#include "tests/tools/program.h"

namespace fla::testing {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kShape[] = "B=1,T=8192,H=32,K=128,V=128";

/// The ops of the family, by their names.
constexpr const char* kOps[] = {
    "kda",         "gated_delta_rule", "delta_rule",     "gla", "simple_gla", "retention", "lightning_attn",
    "linear_attn", "dplr_delta_rule",  "iplr_delta_rule"};

TEST(ExplainCommand, TakesEveryOpByItsShapeAlone) {
  for (const char* op : kOps) {
    const Outcome outcome = fla({"explain", op, "--shape", "T=64,H=2,HV=4,K=32,V=16", "--json"});
    ASSERT_EQ(outcome.code, 0) << op << ": " << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out).at("function"), "chunk_" + std::string(op));
  }
}

TEST(ExplainCommand, TakesFunctionsThatHaveArgumentsOfTheirOwn) {
  for (const std::string op : kOps) {
    for (const std::string& function :
         {op + "_summary", "replay_" + op, "fold_" + op, "chunk_" + op + "_backward"}) {
      std::vector<std::string> words{"explain", op, "--function", function, "--dtype", "f16", "--json"};
      words.insert(words.end(), {"--shape", "B=2,T=4,H=2,HV=4,K=32,V=16,L=16"});
      // Its gates are either of tokens or of heads.
      const bool has_rings = function == "replay_" + op || function == "fold_" + op;
      if (op == "simple_gla" && has_rings) words.insert(words.end(), {"--with", "ring_g=f16"});
      const Outcome outcome = fla(words);
      ASSERT_EQ(outcome.code, 0) << op << ": " << outcome.err;
      EXPECT_EQ(Json::parse(outcome.out).at("function"), function);
    }
  }
  EXPECT_THAT(fla({"explain", "merge", "--shape", "C=3,N=2,HV=4,K=32,V=16"}).out,
              HasSubstr("merge.merge -> original"));
  EXPECT_EQ(fla({"explain", "kda", "--function", "replay_kda", "--shape", "T=4,H=2,K=32"}).err,
            "fla: shape: expected a size of L, got none\n");
}

TEST(ExplainCommand, GivesTheOneOfTwoArgumentsThatIsNamed) {
  const Outcome outcome = fla({"explain", "simple_gla", "--shape", "T=64,H=2,K=32", "--with", "g_gamma"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(ExplainCommand, PrintsTheContractsFields) {
  const Outcome outcome =
      fla({"explain", "kda", "--shape", kShape, "--dtype", "bf16", "--device", "cpu", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("op"), "kda");
  EXPECT_EQ(json.at("function"), "chunk_kda");
  EXPECT_EQ(json.at("dispatch"), "enabled");
  EXPECT_TRUE(json.at("selected").is_string());
  for (const Json& backend : json.at("backends")) {
    EXPECT_TRUE(backend.at("name").is_string());
    EXPECT_TRUE(backend.at("priority").is_number_integer());
    EXPECT_TRUE(backend.at("reason").is_string());
    EXPECT_THAT(backend.at("state").get<std::string>(),
                AnyOf("unavailable", "disabled", "denied", "refused", "failed", "open", "accepted",
                      "selected", "not_implemented"));
  }
}

TEST(ExplainCommand, SaysOriginalWhenDispatchIsDisabled) {
  const Outcome outcome = fla({"explain", "kda", "--shape", kShape, "--json"},
                              {.variables = {{"FLA_DISABLE_BACKEND_DISPATCH", "1"}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("selected"), "original");
  EXPECT_EQ(Json::parse(outcome.out).at("dispatch"), "disabled");
}

TEST(ExplainCommand, TakesAFile) {
  const Outcome outcome = fla({"explain", "kda", "--in", golden("kda_decode_f32"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("function"), "fused_recurrent_kda");
}

TEST(ExplainCommand, TakesTheFunctionItIsTold) {
  const Outcome outcome =
      fla({"explain", "kda", "--shape", "T=1,H=1,K=8", "--function", "chunk_kda", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("function"), "chunk_kda");
}

TEST(ExplainCommand, TakesOptionsAndTensorsFromTheArgumentTable) {
  const Outcome outcome =
      fla({"explain", "kda", "--shape", "T=64,N=3,H=2,HV=4,K=32,V=16", "--option", "use_gate_in_kernel",
           "--option", "lower_bound=-5", "--option", "state_v_first=1", "--with", "initial_state", "--with",
           "A_log=f32", "--with", "dt_bias"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kda.chunk_kda -> "));
}

TEST(ExplainCommand, TakesCheckpoints) {
  const std::vector<std::string> call{"explain",           "kda",    "--shape",
                                      "T=64,H=2,K=32,C=4", "--with", "checkpoints=bf16"};
  const auto spaced = [&](const std::string& option) {
    std::vector<std::string> words = call;
    words.insert(words.end(), {"--option", option});
    return fla(words);
  };
  const Outcome outcome = spaced("checkpoint_every=16");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kda.chunk_kda -> original"));
  EXPECT_EQ(spaced("checkpoint_every=2.5").err,
            "fla: checkpoint_every: expected a whole number, got '2.5'\n");
  EXPECT_EQ(spaced("checkpoint_every=0").err, "fla: kda: checkpoint_every: expected at least 1, got 0\n");
}

TEST(ExplainCommand, RefusesACallThatKdaWouldRefuse) {
  const Outcome outcome = fla({"explain", "kda", "--shape", kShape, "--option", "use_gate_in_kernel"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("A_log: expected"));
}

TEST(ExplainCommand, TakesStages) {
  const Outcome norm = fla({"explain", "common.l2_norm", "--shape", "T=64,H=1,K=128", "--json"});
  ASSERT_EQ(norm.code, 0) << norm.err;
  EXPECT_EQ(Json::parse(norm.out).at("op"), "common");
  EXPECT_EQ(Json::parse(norm.out).at("function"), "l2_norm");
  EXPECT_EQ(Json::parse(norm.out).at("selected"), "original");
  EXPECT_THAT(fla({"explain", "common.gate", "--shape", "T=64,H=2,K=128", "--with", "A_log"}).out,
              HasSubstr("common.gate -> original\n"));
  EXPECT_THAT(fla({"explain", "common.solve_tril", "--shape", "T=64,H=2,C=16", "--dtype", "bf16"}).out,
              HasSubstr("common.solve_tril -> original\n"));
}

TEST(ExplainCommand, TakesTheOpsOfALayerAroundItsRecurrence) {
  const Outcome conv = fla({"explain", "short_conv", "--shape", "T=64,D=256,W=4,N=3", "--dtype", "bf16",
                            "--option", "use_silu", "--with", "initial_state", "--json"});
  ASSERT_EQ(conv.code, 0) << conv.err;
  EXPECT_EQ(Json::parse(conv.out).at("function"), "short_conv");
  EXPECT_EQ(Json::parse(conv.out).at("selected"), "original");
  EXPECT_THAT(fla({"explain", "gated_rms_norm", "--shape", "T=64,HV=2,V=128", "--with", "weight"}).out,
              HasSubstr("gated_rms_norm.gated_rms_norm -> original\n"));
  EXPECT_EQ(fla({"explain", "short_conv", "--shape", "T=64,D=256"}).err,
            "fla: shape: expected a size of W, got none\n");
  EXPECT_EQ(fla({"explain", "short_conv", "--shape", "T=64,D=256,W=5"}).err,
            "fla: short_conv: weight: expected W from 2 to 4, got 5\n");
}

TEST(ExplainCommand, SaysWhichOpsAndSizesItKnows) {
  EXPECT_EQ(fla({"explain", "common", "--shape", kShape}).err,
            "fla: op: expected one of kda, gated_delta_rule, delta_rule, gla, simple_gla, retention, "
            "lightning_attn, linear_attn, dplr_delta_rule, iplr_delta_rule, short_conv, gated_rms_norm, "
            "kda_step, gated_delta_rule_step, merge, "
            "common.l2_norm, common.gate, common.solve_tril, got 'common'\n");
  EXPECT_EQ(fla({"explain", "common.solve_tril", "--shape", "T=64,H=2,K=16"}).err,
            "fla: shape: expected a size of C, got none\n");
  EXPECT_EQ(fla({"explain", "kda", "--shape", "T=64,H=2,C=16"}).err,
            "fla: shape: expected a size of K, got none\n");
}

TEST(ExplainCommand, SaysThatADeviceIsNotThere) {
  const std::vector<std::string> words{"explain", "kda", "--shape", kShape, "--device", "cuda:99"};
  const std::string note = absence_of_cuda_99() + "; a call would be refused";
  const Outcome text = fla(words);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, EndsWith("\nnote: " + note + "\n"));
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const Outcome json = fla(with_json);
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out).at("note"), note);
  EXPECT_EQ(Json::parse(json.out).at("selected"), "original");
}

TEST(ExplainCommand, HasNoNoteForADeviceThatIsThere) {
  const Outcome outcome = fla({"explain", "kda", "--shape", kShape, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(Json::parse(outcome.out).contains("note"));
}

TEST(ExplainCommand, AsksAboutAFileForADeviceThatIsNotThere) {
  const Outcome outcome =
      fla({"explain", "kda", "--in", golden("kda_varlen_gva_softplus_bf16"), "--device", "cuda:99"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("requires CPU tensors, got cuda:99"));
}

TEST(ExplainCommand, TakesAPoolOfStates) {
  const Outcome outcome = fla({"explain", "kda", "--shape", "B=4,T=1,H=2,K=64,P=9", "--with", "initial_state",
                               "--with", "final_state", "--with", "state_indices"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kda.fused_recurrent_kda -> "));
  EXPECT_EQ(fla({"explain", "kda", "--shape", "B=4,T=1,H=2,K=64,P=3", "--with", "initial_state", "--with",
                 "final_state", "--with", "state_indices"})
                .code,
            2);
}

TEST(ExplainCommand, TakesPackedSequencesWithTheirIndicesOnTheHostOrTheDevice) {
  const std::vector<std::string> packed{"explain", "kda", "--shape", "T=8192,N=8,H=32,K=128,P=64", "--json"};
  const auto explained = [&packed](const std::vector<std::string>& more) {
    std::vector<std::string> words = packed;
    words.insert(words.end(), more.begin(), more.end());
    return fla(words);
  };
  const auto selected = [&](const std::vector<std::string>& more) {
    const Outcome outcome = explained(more);
    return outcome.code == 0 ? Json::parse(outcome.out).at("selected").get<std::string>() : outcome.err;
  };
  const std::string on_cpu = selected({});
  EXPECT_THAT(on_cpu, AnyOf("cpu_simd", "original"));
  EXPECT_EQ(selected({"--with", "cu_seqlens=i32"}), on_cpu);
  EXPECT_EQ(selected({"--with", "cu_seqlens=i32,initial_state,final_state,state_indices=i32"}), on_cpu);
  for (const char* indices :
       {"cu_seqlens", "cu_seqlens=i32@cuda", "cu_seqlens@cuda",
        "cu_seqlens=i32@cuda,state_indices=i64@cuda,initial_state,final_state", "cu_seqlens=i32@cpu"}) {
    const Outcome outcome = explained({"--device", "cuda", "--dtype", "bf16", "--with", indices});
    EXPECT_EQ(outcome.code, 0) << indices << ": " << outcome.err;
  }
  EXPECT_EQ(explained({"--with", "cu_seqlens@cuda"}).err,
            "fla: kda: cu_seqlens: expected device cpu, got cuda:0\n");
}

TEST(ExplainCommand, DoesNotReadIndicesOnADeviceWhenTheyAreToBeChecked) {
  const Outcome outcome = fla({"explain", "kda", "--shape", "T=64,N=4,H=2,K=64", "--device", "cuda", "--with",
                               "cu_seqlens=i32@cuda", "--json"},
                              {.variables = {{"FLA_CHECK_INDICES", "1"}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Json::parse(outcome.out).at("selected").is_string());
}

TEST(ExplainCommand, NamesWhatIsWrongWithAnOptionalTensor) {
  const auto refusal = [](const char* with) {
    return fla({"explain", "kda", "--shape", "T=64,H=2,K=64", "--with", with}).err;
  };
  EXPECT_EQ(refusal("cu_seqlens"),
            "fla: cu_seqlens: expected N, the number of packed sequences, in the shape, got none\n");
  EXPECT_EQ(refusal("initial_state=f7"),
            "fla: initial_state: expected a dtype such as f32, bf16 or i32, got 'f7'\n");
  EXPECT_EQ(refusal("state_indices=f32"), "fla: state_indices: expected i32 or i64, got f32\n");
  EXPECT_EQ(refusal("state_indices=i32@abacus"),
            "fla: state_indices: expected cpu, cuda or cuda:N behind the @, got 'abacus'\n");
  EXPECT_EQ(refusal("hope"), "fla: with: expected an optional tensor of kda, got 'hope'\n");
}

TEST(ExplainCommand, ListsTheOriginalKernelAsTheLastRow) {
  const Json json = Json::parse(fla({"explain", "kda", "--shape", kShape, "--json"}).out);
  EXPECT_EQ(json.at("backends").back().at("name"), "original");
  EXPECT_THAT(json.at("backends").back().at("state").get<std::string>(), AnyOf("selected", "accepted"));
}

TEST(ExplainCommand, AsksPreferredBackendsFirst) {
  const Outcome outcome = fla({"explain", "kda", "--shape", kShape, "--json"},
                              {.variables = {{"FLA_BACKEND_PREFER", "kda=cpu_simd"}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json backends = Json::parse(outcome.out).at("backends");
  EXPECT_EQ(backends.at(0).at("name"), "cpu_simd");
  EXPECT_EQ(backends.at(0).at("preferred"), true);
  const Json others = Json::parse(fla({"explain", "kda", "--shape", kShape, "--json"}).out).at("backends");
  EXPECT_EQ(backends.size(), others.size()) << "the others stay";
}

TEST(ExplainCommand, TakesOutputsOfLargeCalls) {
  const Outcome outcome = fla({"explain", "kda", "--shape", kShape, "--with", "out"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

}  // namespace
}  // namespace fla::testing
