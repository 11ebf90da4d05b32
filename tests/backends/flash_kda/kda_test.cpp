#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/gla/gla.h"
#include "fla/ops/linear_attn/linear_attn.h"
#include "tests/backends/flash_kda/flash_test.h"
#include "tests/backends/flash_kda/refusals.h"
#include "tests/backends/wanted_workspace.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tools/conformance/surrounded.h"

/// flash_kda as a backend: what it takes, what turns it off, what it is given to work in.
namespace {

using fla::BackendError;
using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::same_bits;
using fla::conformance::Surrounded;
using fla_test::error_text;
using fla_test::FlashTest;
using fla_test::kGpu;
using fla_test::ReloadedEnvironment;
using fla_test::row_of;

class FlashKda : public FlashTest {};

TEST_F(FlashKda, IsAskedFirst) {
  const fla::Explanation explanation = fla::explain("kda", "chunk_kda", fla_test::ChunkCall().args);
  EXPECT_EQ(explanation.selected, "flash_kda");
  EXPECT_EQ(row_of(fla_test::ChunkCall().args).priority, 3);
}

TEST_F(FlashKda, RefusesWithItsReasonThroughThePublicFunction) {
  const fla::ScopedPolicy required({.require = {{"kda", "flash_kda"}}});
  for (const fla_test::Refusal& refusal : fla_test::refusals()) {
    fla_test::ChunkCall call;
    refusal.spoil(call);
    const fla::Explanation::Row row = row_of(call.args);
    EXPECT_EQ(row.state, "refused") << refusal.name;
    EXPECT_EQ(row.reason, refusal.reason) << refusal.name;
    EXPECT_EQ(row.route, "") << refusal.name;
    EXPECT_EQ(error_text<BackendError>([&] { fla::chunk_kda(call.args); }),
              "kda.chunk_kda: backend flash_kda is required and refused: " + refusal.reason)
        << refusal.name;
  }
}

TEST_F(FlashKda, RefusesAGpuThatIsNotThere) {
  fla_test::ChunkCall call;
  call.put_on({fla::DeviceType::cuda, 99});
  EXPECT_EQ(row_of(call.args).reason, "requires a GPU that is there, got cuda:99");
}

TEST_F(FlashKda, TakesEverythingElse) {
  for (const fla_test::Acceptance& acceptance : fla_test::acceptances()) {
    fla_test::ChunkCall call;
    acceptance.change(call);
    EXPECT_EQ(row_of(call.args).state, "selected") << acceptance.name;
    EXPECT_NE(row_of(call.args).route, "") << acceptance.name;
  }
}

TEST_F(FlashKda, HasNoFusedRecurrentKda) {
  EXPECT_EQ(row_of(fla_test::ChunkCall().args, "fused_recurrent_kda").state, "not_implemented");
}

TEST_F(FlashKda, IsTurnedOffByItsVariable) {
  const fla_test::ChunkCall call;
  const ReloadedEnvironment off({{"FLA_FLASH_KDA", "0"}});
  EXPECT_EQ(row_of(call.args).state, "disabled");
  EXPECT_EQ(row_of(call.args).reason, "FLA_FLASH_KDA=0");
  EXPECT_NE(fla::explain("kda", "chunk_kda", call.args).selected, "flash_kda");
}

// ---- Its kin

template <class Args>
fla::Explanation::Row row_of_kin(const char* backend, Args args) {
  const fla_test::ChunkCall call;
  args.q = call.args.q, args.k = call.args.k, args.v = call.args.v;
  if constexpr (requires { args.g; }) {
    if constexpr (Args::kOp.gate == fla::GateKind::channel) args.g = call.args.g;
  }
  for (const fla::Explanation::Row& row : fla::explain(Args::kOp.name, Args::kOp.chunk, args).rows)
    if (row.name == backend) return row;
  return {};
}

TEST_F(FlashKda, AndItsKinAreTurnedOffByTheirVariables) {
  EXPECT_EQ(row_of_kin("flash_gla", fla::GlaArgs{}).state, "selected");
  EXPECT_EQ(row_of_kin("flash_simple_gla", fla::LinearAttnArgs{}).state, "selected");
  const ReloadedEnvironment off({{"FLA_FLASH_GLA", "0"}, {"FLA_FLASH_SIMPLE_GLA", "0"}});
  EXPECT_EQ(row_of_kin("flash_gla", fla::GlaArgs{}).reason, "FLA_FLASH_GLA=0");
  EXPECT_EQ(row_of_kin("flash_simple_gla", fla::LinearAttnArgs{}).reason, "FLA_FLASH_SIMPLE_GLA=0");
}

TEST_F(FlashKda, ItsKinRefuseOutputsThatAreNormalized) {
  fla::LinearAttnArgs args;
  args.normalize = true;
  const fla::Explanation::Row row = row_of_kin("flash_simple_gla", args);
  EXPECT_EQ(row.state, "refused");
  EXPECT_EQ(row.reason, "requires outputs that are not normalized");
}

// ---- The memory that it works in

std::size_t bytes_wanted(const KdaArgs& args) {
  return fla_test::bytes_wanted(args, [](const KdaArgs& given) { return row_of(given); });
}

TEST_F(FlashKda, RefusesAWorkspaceThatDoesNotDo) {
  fla_test::ChunkCall call;
  fla_test::expect_workspaces_judged(call, [](const KdaArgs& args) { return row_of(args); });
}

TEST_F(FlashKda, WorksInExactlyTheBytesThatItWantsWhateverTheyHold) {
  const fla::ScopedPolicy required({.require = {{"kda", "flash_kda"}}});
  for (const fla::cases::KdaSpec& spec : fla_test::specs_of_routes()) {
    const KdaCase made = make_kda_case(spec);
    const KdaResult expected = fla_test::flashed(made.args);
    const Surrounded given(made.args);
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      for (const std::size_t beyond : {0, 256, 512, 768}) {
        DeviceCall call(given.args, kGpu, indices);
        KdaArgs args = call.args();
        fla::conformance::SurroundedMemory memory(kGpu, bytes_wanted(args), beyond);
        ASSERT_GT(memory.bytes(), 0u);
        args.workspace = {memory.data(), memory.bytes()};
        const KdaResult result = call.bring_back(fla::chunk_kda(args));
        EXPECT_EQ(call.damage(), "");
        (void)memory.fetch();
        EXPECT_TRUE(memory.intact_around()) << row_of(args).route;
        EXPECT_TRUE(same_bits(result, expected)) << row_of(args).route;
      }
    }
  }
}

// ---- Routes

TEST_F(FlashKda, CutsAFewLongSequencesIntoSegments) {
  fla_test::ChunkCall call;
  call.resize(1, 32768, 4);
  EXPECT_TRUE(row_of(call.args).route.starts_with("segments: ")) << row_of(call.args).route;
  call.resize(1, 8192, 96);
  EXPECT_FALSE(row_of(call.args).route.starts_with("segments: ")) << row_of(call.args).route;
  call.resize(1, 64, 4);
  EXPECT_FALSE(row_of(call.args).route.starts_with("segments: ")) << row_of(call.args).route;
}

TEST_F(FlashKda, CutsNothingWithADeterministicRoute) {
  fla_test::ChunkCall call;
  call.resize(1, 32768, 4);
  const ReloadedEnvironment deterministic({{"FLA_FLASH_KDA_DETERMINISTIC_ROUTE", "1"}});
  EXPECT_FALSE(row_of(call.args).route.starts_with("segments: ")) << row_of(call.args).route;
}

TEST_F(FlashKda, AsksForAWorkspaceThatDoesForEveryRoute) {
  fla_test::ChunkCall call;
  call.resize(1, 32768, 4);
  const std::size_t bytes = fla::workspace_size(call.args), wanted = bytes_wanted(call.args);
  const ReloadedEnvironment deterministic({{"FLA_FLASH_KDA_DETERMINISTIC_ROUTE", "1"}});
  EXPECT_EQ(fla::workspace_size(call.args), bytes);
  EXPECT_GE(bytes, wanted);
  EXPECT_GE(bytes, bytes_wanted(call.args));
}

TEST_F(FlashKda, RefusesASwitchThatIsNone) {
  const fla_test::ScopedEnvironment wrong({{"FLA_FLASH_KDA_DETERMINISTIC_ROUTE", "maybe"}});
  EXPECT_EQ(error_text<fla::ConfigError>([] { fla::reload_environment(); }),
            "FLA_FLASH_KDA_DETERMINISTIC_ROUTE: expected one of 0 1 true false on off yes no, got 'maybe'");
}

/// Sequence n of packed ones, by itself.
KdaArgs alone(const KdaArgs& args, std::int64_t begin, std::int64_t tokens, std::int64_t n) {
  KdaArgs one = args;
  for (fla::TensorView* tensor : {&one.q, &one.k, &one.v, &one.g, &one.beta})
    *tensor = tensor->slice(1, begin, tokens);
  one.initial_state = one.initial_state.slice(0, n, 1);
  one.cu_seqlens = {};
  return one;
}

TEST_F(FlashKda, ADeterministicRouteGivesTheSameBitsAloneAndInABatch) {
  const KdaCase made = make_kda_case({.H = 1,
                                      .HV = 2,
                                      .K = 128,
                                      .V = 128,
                                      .lengths = {100, 4096, 0, 700},
                                      .dtype = DType::bf16,
                                      .data = fla::cases::DataKind::slow});
  EXPECT_TRUE(
      row_of(DeviceCall(alone(made.args, 100, 4096, 1), kGpu).args()).route.starts_with("segments: "));
  const ReloadedEnvironment deterministic({{"FLA_FLASH_KDA_DETERMINISTIC_ROUTE", "1"}});
  const KdaResult together = fla_test::flashed(made.args);
  std::int64_t begin = 0, n = 0;
  for (const std::int64_t tokens : {100, 4096, 0, 700}) {
    const KdaResult part{fla::Tensor::over(together.o.view().slice(1, begin, tokens)),
                         fla::Tensor::over(together.final_state.view().slice(0, n, 1))};
    EXPECT_TRUE(same_bits(part, fla_test::flashed(alone(made.args, begin, tokens, n)))) << n;
    begin += tokens;
    ++n;
  }
}

TEST_F(FlashKda, EveryRouteIsRight) {
  for (const fla::cases::KdaSpec& spec : fla_test::specs_of_routes()) {
    const KdaCase made = make_kda_case(spec);
    const std::string route = row_of(DeviceCall(made.args, kGpu).args()).route;
    const fla_test::Errors errors = fla_test::errors_of(made.args);
    EXPECT_LE(errors.o, 3.5e-3) << route;
    EXPECT_LE(errors.final_state, 1e-3) << route;
  }
}

}  // namespace
