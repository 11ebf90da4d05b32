#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/backends/tilelang/refusals.h"
#include "tests/backends/tilelang/tilelang_test.h"
#include "tests/backends/wanted_workspace.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tools/conformance/surrounded.h"

/// tilelang as a backend: what it takes, what turns it off, what it is given to work in.
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
using fla_test::ChunkCall;
using fla_test::error_text;
using fla_test::kGpu;
using fla_test::ReloadedEnvironment;
using fla_test::row_of;
using fla_test::tiled;

class TileLang : public fla_test::TileLangTest {};

TEST_F(TileLang, TakesWhatFlashKdaWouldTakeWhereThatIsTurnedOff) {
  const ChunkCall call;
  const ReloadedEnvironment off({{"FLA_FLASH_KDA", "0"}});
  EXPECT_EQ(fla::explain("kda", "chunk_kda", call.args).selected, "tilelang");
  EXPECT_EQ(row_of(call.args).priority, 4);
}

TEST_F(TileLang, AgreesWithFlashKda) {
  if (const std::string why = fla_test::why_without("flash_kda"); !why.empty())
    GTEST_SKIP() << "not run: " << why;
  const KdaCase made = make_kda_case({.T = 300,
                                      .H = 2,
                                      .HV = 4,
                                      .K = 128,
                                      .V = 128,
                                      .dtype = DType::bf16,
                                      .data = fla::cases::DataKind::slow});
  const fla::cases::Reference reference = fla::cases::reference_of(made.args);
  KdaResult flashed;
  {
    const ReloadedEnvironment on({{"FLA_FLASH_KDA", "1"}});
    const fla::ScopedPolicy required({.require = {{"kda", "flash_kda"}}});
    DeviceCall call(made.args, kGpu);
    flashed = call.bring_back(fla::chunk_kda(call.args()));
  }
  EXPECT_EQ(fla::conformance::disagreement(flashed, reference, made.args, DType::bf16), "");
  EXPECT_EQ(fla::conformance::disagreement(tiled(made.args), reference, made.args, DType::bf16), "");
}

TEST_F(TileLang, SaysWhichInstancesRun) {
  ChunkCall call;
  EXPECT_EQ(row_of(call.args).route, "kda_prepare_k128_bf16, kda_state_k128_bf16");
  call.pack(3, 100);
  EXPECT_EQ(row_of(call.args).route, "kda_prepare_k128_bf16_varlen, kda_state_k128_bf16_varlen");
  call.resize(1, 100, 2, 256, 64);
  EXPECT_EQ(row_of(call.args).route, "kda_prepare_k256_bf16, kda_state_k256_bf16");
}

TEST_F(TileLang, RefusesWithItsReasonThroughThePublicFunction) {
  const fla::ScopedPolicy required({.require = {{"kda", "tilelang"}}});
  for (const fla_test::Refusal& refusal : fla_test::refusals()) {
    ChunkCall call;
    refusal.spoil(call);
    const fla::Explanation::Row row = row_of(call.args);
    EXPECT_EQ(row.state, "refused") << refusal.name;
    EXPECT_EQ(row.reason, refusal.reason) << refusal.name;
    EXPECT_EQ(row.route, "") << refusal.name;
    EXPECT_EQ(error_text<BackendError>([&] { fla::chunk_kda(call.args); }),
              "kda.chunk_kda: backend tilelang is required and refused: " + refusal.reason)
        << refusal.name;
  }
}

TEST_F(TileLang, RefusesAGpuThatIsNotThere) {
  ChunkCall call;
  call.put_on({fla::DeviceType::cuda, 99});
  EXPECT_EQ(row_of(call.args).reason, "requires a GPU that is there, got cuda:99");
}

TEST_F(TileLang, TakesEverythingElse) {
  for (const fla_test::Acceptance& acceptance : fla_test::acceptances()) {
    ChunkCall call;
    acceptance.change(call);
    EXPECT_EQ(row_of(call.args).state, "selected") << acceptance.name;
    EXPECT_NE(row_of(call.args).route, "") << acceptance.name;
  }
}

TEST_F(TileLang, HasNoFusedRecurrentKda) {
  EXPECT_EQ(row_of(ChunkCall().args, "fused_recurrent_kda").state, "not_implemented");
}

TEST_F(TileLang, IsTurnedOffByItsVariable) {
  const ChunkCall call;
  const ReloadedEnvironment off({{"FLA_TILELANG", "0"}, {"FLA_FLASH_KDA", "0"}});
  EXPECT_EQ(row_of(call.args).state, "disabled");
  EXPECT_EQ(row_of(call.args).reason, "FLA_TILELANG=0");
  EXPECT_EQ(fla::explain("kda", "chunk_kda", call.args).selected, "original");
}

std::size_t bytes_wanted(const KdaArgs& args) {
  return fla_test::bytes_wanted(args, [](const KdaArgs& given) { return row_of(given); });
}

TEST_F(TileLang, RefusesAWorkspaceThatDoesNotDo) {
  ChunkCall call;
  fla_test::expect_workspaces_judged(call, [](const KdaArgs& args) { return row_of(args); });
}

TEST_F(TileLang, WorksInExactlyTheBytesThatItWantsWhateverTheyHold) {
  const fla::ScopedPolicy required({.require = {{"kda", "tilelang"}}});
  for (const fla::cases::KdaSpec& spec : fla_test::specs_of_instances(130)) {
    const KdaCase made = make_kda_case(spec);
    const KdaResult expected = tiled(made.args);
    const Surrounded given(made.args);
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      for (const std::size_t beyond : {0, 256}) {
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

}  // namespace
