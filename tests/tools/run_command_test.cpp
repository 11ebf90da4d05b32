#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fla/dispatch/observe/ops.h"
#include "tests/dispatch/exposition.h"
#include "tests/tools/absent_device.h"
#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/safetensors.h"

namespace fla::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

TEST(RunCommand, WritesTheResults) {
  const TemporaryFolder folder;
  const std::string out = folder / "result.safetensors", in = golden("kda_varlen_gva_softplus_bf16");
  const Outcome outcome = fla({"run", "kda", "--in", in, "--out", out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kda.chunk_kda -> "));
  EXPECT_THAT(folder.contents(), ElementsAre("result.safetensors"));
  const cases::Safetensors result = cases::Safetensors::open(out), expected = cases::Safetensors::open(in);
  for (const char* name : {"o", "final_state"}) {
    EXPECT_LT(cases::relative_error(result.read(name), expected.read(std::string("expect.") + name)), 8e-3)
        << name;
  }
  EXPECT_EQ(result.metadata().at("op"), "kda");
}

TEST(RunCommand, RunsTheOriginalKernelAndTheFunctionItIsTold) {
  const TemporaryFolder folder;
  const Outcome outcome = fla({"run", "kda", "--in", golden("kda_decode_f32"), "--out", folder / "x",
                               "--backend", "original", "--function", "chunk_kda", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("backend"), "original");
  EXPECT_EQ(json.at("function"), "chunk_kda");
  EXPECT_EQ(json.at("tensors"), Json({"o", "final_state"}));
}

TEST(RunCommand, WritesGradientsWithBackward) {
  const TemporaryFolder folder;
  const std::string in = golden("kda_fused_grad_f32");
  const Outcome outcome = fla({"run", "kda", "--backward", "--in", in, "--out", folder / "x", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("function"), "chunk_kda_backward");
  const cases::Safetensors result = cases::Safetensors::open(folder / "x"),
                           expected = cases::Safetensors::open(in);
  EXPECT_EQ(result.entries().size(), 8u);
  for (const cases::Safetensors::Entry& entry : result.entries()) {
    EXPECT_LT(cases::relative_error(result.read(entry.name), expected.read("expect." + entry.name)), 1e-5)
        << entry.name;
  }
}

TEST(RunCommand, PrintsTheCountersOnStandardError) {
  const TemporaryFolder folder;
  const std::vector<std::string> words{"run",        "kda",        "--in",      golden("kda_decode_f32"),
                                       "--out",      folder / "x", "--backend", "original",
                                       "--function", "chunk_kda",  "--counters"};
  const auto with = [&words](const char* format) {
    std::vector<std::string> all = words;
    all.emplace_back(format);
    return fla(all);
  };
  const Outcome prometheus = with("prometheus");
  ASSERT_EQ(prometheus.code, 0) << prometheus.err;
  const auto metrics = fla_test::exposition::read(prometheus.err);
  EXPECT_EQ(metrics.at("fla_backend_taken_total")
                .samples.at({{"op", "kda"}, {"function", "chunk_kda"}, {"backend", "original"}}),
            1u);
  const Outcome json = with("json");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_TRUE(Json::parse(json.err).at("counters").is_array());
  EXPECT_EQ(with("xml").code, 2);
}

TEST(RunCommand, RefusesABackendThatDoesNotExist) {
  const TemporaryFolder folder;
  const Outcome outcome = fla({"run", "kda", "--in", golden("kda_decode_f32"), "--out", folder / "x",
                               "--backend", "no_such_backend"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]*no_such_backend[^\n]*\n"));
  EXPECT_THAT(folder.contents(), IsEmpty());
}

TEST(RunCommand, EndsWithCode3WhenTheBackendItIsToldDoesNotTakeTheCall) {
  const std::vector<OpStatus> all = ops();
  for (const BackendStatus& backend : all.front().backends) {
    const TemporaryFolder folder;
    const Outcome outcome = fla({"run", "kda", "--in", golden("kda_decode_f32"), "--out", folder / "x",
                                 "--backend", std::string(backend.info.name)},
                                {.variables = {{std::string(backend.info.env_var), "0"}}});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]+\n"));
    EXPECT_THAT(folder.contents(), IsEmpty());
  }
}

TEST(RunCommand, KeepsAnEarlierResultWhenItFails) {
  const TemporaryFolder folder;
  const std::string out = folder.write("x", "earlier");
  EXPECT_EQ(fla({"run", "kda", "--in", folder / "missing", "--out", out}).code, 2);
  EXPECT_EQ(read_bytes(out), "earlier");
}

/// The limit of a file's size sends a signal in the midst of writing, on every machine.
TEST(RunCommand, LeavesNothingWhenASignalEndsIt) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_program({"/bin/sh", "-c", "ulimit -f 0 && exec \"$0\" \"$@\"", FLA_COMMAND, "run", "kda", "--in",
                   golden("kda_decode_f32"), "--out", folder / "x"});
  EXPECT_EQ(outcome.signal, SIGXFSZ) << outcome.err;
  EXPECT_THAT(folder.contents(), IsEmpty());
}

TEST(RunCommand, WritesWhatADanglingLinkPointsTo) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("result", folder / "link");
  const Outcome outcome = fla({"run", "kda", "--in", golden("kda_decode_f32"), "--out", folder / "link"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(cases::Safetensors::open(folder / "result").metadata().at("op"), "kda");
}

TEST(RunCommand, WritesNothingForADeviceThatIsNotThere) {
  const TemporaryFolder folder;
  const Outcome outcome =
      fla({"run", "kda", "--in", golden("kda_decode_f32"), "--out", folder / "x", "--device", "cuda:99"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "fla: device: " + absence_of_cuda_99() + "\n");
  EXPECT_THAT(folder.contents(), IsEmpty());
}

}  // namespace
}  // namespace fla::testing
