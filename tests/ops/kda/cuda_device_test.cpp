#include <gtest/gtest.h>

#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/error_text.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"

namespace {

using fla::InvalidArgument;
using fla::KdaArgs;
using fla_test::error_text;

/// A call whose tensors claim to lie on a device that no machine has.
KdaArgs on_no_device(const fla::cases::KdaCase& call) {
  KdaArgs args = call.args;
  for (const fla::Argument& argument : KdaArgs::arguments()) {
    if (!argument.is_tensor()) continue;
    fla::TensorView& tensor = argument.tensor(&args);
    if (tensor.defined())
      tensor = fla::TensorView(tensor.data(), tensor.dtype(), tensor.shape(), {fla::DeviceType::cuda, 999});
  }
  return args;
}

std::string expected() {
  const std::size_t count = fla::cuda_devices().size();
  if (count == 0)
    return "kda: q: expected device cpu, got cuda:999: " + std::string(fla::why_no_cuda_device());
  const std::string there = count == 1 ? "cuda:0" : "cuda:0 to cuda:" + std::to_string(count - 1);
  return "kda: q: expected device " + there + ", got cuda:999";
}

TEST(KdaOnCuda, IsRefusedWhereThereIsNoSuchDevice) {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 3, .H = 1, .K = 8, .V = 8});
  for (const auto& [way, run] : fla_test::kEveryWay) {
    EXPECT_EQ(error_text<InvalidArgument>([&, run = run] { run(on_no_device(call)); }), expected()) << way;
  }
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::workspace_size(on_no_device(call)); }), expected());
}

TEST(KdaWorkspace, IsNothingOnTheCpu) {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 100, .H = 2, .K = 64, .V = 64});
  EXPECT_EQ(fla::workspace_size(call.args), 0u);
}

TEST(KdaWorkspace, IsAskedForWithValidArgumentsOnly) {
  fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 3, .H = 1, .K = 8, .V = 8});
  call.args.k = {};
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::workspace_size(call.args); }),
            "kda: k: expected a tensor of shape [B=1, T=3, H=1, K=8], got none");
}

}  // namespace
