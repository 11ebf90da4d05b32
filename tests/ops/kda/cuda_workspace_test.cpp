#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/error_text.h"
#include "tests/gpu/gpu.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/device_call.h"

namespace {

using fla::InvalidArgument;
using fla::KdaArgs;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::error_text;

/// Takes calls of 40 tokens and asks for as much workspace as it is told to.
class Greedy final : public fla::KdaBackend {
 public:
  explicit Greedy(std::size_t bytes) : bytes_(bytes) {}
  fla::BackendInfo info() const override {
    return {.name = "greedy", .env_var = "FLA_GREEDY", .priority = 1};
  }
  fla::Verdict chunk_kda_verifier(const KdaArgs& args) const override {
    if (args.workspace.data != nullptr && args.workspace.bytes < bytes_)
      return fla::refuse("requires a workspace of {} bytes, got {}", bytes_, args.workspace.bytes);
    return args.q.size(1) == 40 ? fla::accept() : fla::refuse("requires T=40, got {}", args.q.size(1));
  }
  fla::KdaResult chunk_kda(const KdaArgs& args) override { return fla::original::chunk_kda(args); }
  std::size_t workspace_size(std::string_view function, const KdaArgs&) const override {
    EXPECT_EQ(function, "chunk_kda");
    return bytes_;
  }

 private:
  std::size_t bytes_;
};

/// The operators of one chunk and head with K padded to 128: K~, Q~ and Kr of 32 tokens, two matrices of
/// pairs, the decay.
constexpr std::size_t kChunk = (3 * 32 * 128 + 2 * 32 * 32 + 128) * sizeof(float);

class KdaWorkspaceOnGpu : public fla_test::GpuTest {
 protected:
  /// Two sequences of two chunks, three value heads.
  fla::cases::KdaCase call_ =
      fla::cases::make_kda_case({.B = 2, .T = 40, .H = 1, .HV = 3, .K = 100, .V = 16});
  static constexpr std::size_t kBytes = 2 * 2 * 3 * kChunk;
};

TEST_F(KdaWorkspaceOnGpu, HoldsTheOperatorsOfEveryChunk) {
  const DeviceCall call(call_.args, fla_test::kGpu);
  EXPECT_EQ(fla::workspace_size(call.args()), kBytes);
}

TEST_F(KdaWorkspaceOnGpu, HoldsIndicesThatLieOnTheHost) {
  const fla::cases::KdaCase packed = fla::cases::make_kda_case(
      {.H = 1, .HV = 3, .K = 100, .V = 16, .lengths = {40, 0, 40}, .pool = 9, .write_indices = true});
  const std::size_t chunks = (80 / 32 + 3) * 3 * kChunk;
  const DeviceCall there(packed.args, fla_test::kGpu, DeviceIndices::on_device);
  EXPECT_EQ(fla::workspace_size(there.args()), chunks);
  const DeviceCall here(packed.args, fla_test::kGpu, DeviceIndices::on_host);
  EXPECT_EQ(fla::workspace_size(here.args()), chunks + 256);
}

TEST_F(KdaWorkspaceOnGpu, IsEnoughForEveryBackendWhateverTheSettingsAre) {
  const DeviceCall call(call_.args, fla_test::kGpu);
  const auto greedy = fla::register_backend("kda", std::make_unique<Greedy>(kBytes + 1));
  EXPECT_EQ(fla::workspace_size(call.args()), kBytes + 1);
  const fla::ScopedPolicy off({.disable_dispatch = true});
  EXPECT_EQ(fla::workspace_size(call.args()), kBytes + 1);
  KdaArgs small = call.args();
  small.workspace = {call.args().q.data(), 1};
  EXPECT_EQ(fla::workspace_size(small), kBytes + 1);
}

TEST_F(KdaWorkspaceOnGpu, DoesNotCountABackendThatRefuses) {
  const fla::cases::KdaCase shorter =
      fla::cases::make_kda_case({.B = 2, .T = 39, .H = 1, .HV = 3, .K = 100, .V = 16});
  const DeviceCall call(shorter.args, fla_test::kGpu);
  const auto greedy = fla::register_backend("kda", std::make_unique<Greedy>(kBytes + 1));
  EXPECT_EQ(fla::workspace_size(call.args()), kBytes);
}

TEST_F(KdaWorkspaceOnGpu, IsRefusedWhereItIsTooSmall) {
  DeviceCall call(call_.args, fla_test::kGpu);
  const fla::conformance::SurroundedMemory memory(fla_test::kGpu, kBytes);
  KdaArgs args = call.args();
  args.workspace = {memory.data(), kBytes - 1};
  const std::string expected = "kda: workspace: expected at least " + std::to_string(kBytes) +
                               " bytes, got " + std::to_string(kBytes - 1);
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::chunk_kda(args); }), expected);
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::original::chunk_kda(args); }), expected);
}

TEST_F(KdaWorkspaceOnGpu, IsRefusedWhereItIsNotAligned) {
  DeviceCall call(call_.args, fla_test::kGpu);
  const fla::conformance::SurroundedMemory memory(fla_test::kGpu, kBytes, 16);
  KdaArgs args = call.args();
  args.workspace = {memory.data(), kBytes};
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::chunk_kda(args); }),
            "kda: workspace: expected memory aligned to 256 bytes, got an address 16 bytes off");
}

TEST_F(KdaWorkspaceOnGpu, IsRefusedWithoutMemory) {
  DeviceCall call(call_.args, fla_test::kGpu);
  KdaArgs args = call.args();
  args.workspace = {nullptr, kBytes};
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::chunk_kda(args); }),
            "kda: workspace: expected " + std::to_string(kBytes) + " bytes of memory, got a null pointer");
}

TEST_F(KdaWorkspaceOnGpu, MayBeAnythingWhereNoneIsNeeded) {
  DeviceCall call(call_.args, fla_test::kGpu);
  KdaArgs args = call.args();
  args.workspace = {args.q.as<std::byte>() + 1, 1};
  const fla::KdaResult result = call.bring_back(fla::original::fused_recurrent_kda(args));
  EXPECT_EQ(
      fla::conformance::disagreement(result, fla::original::fused_recurrent_kda(call_.args), call_.args), "");
}

}  // namespace
