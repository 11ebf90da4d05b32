#include "tools/conformance/device_call.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/ops/gated_rms_norm/norm_call.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/op_specs.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// The CPU is a device, too: what stands for a call on a GPU stands for one here.
namespace {

using fla::Argument;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::bytes_of;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::LaidOut;
using fla::conformance::Layout;
using fla::conformance::PooledCall;
using fla::conformance::PoolWrites;
using fla::conformance::same_bits;
using fla::conformance::Surrounded;

Surrounded<fla::KdaArgs> some_call(std::uint64_t seed = 1) {
  return Surrounded(make_kda_case({.B = 2, .T = 5, .H = 2, .K = 8, .V = 8, .seed = seed}).args,
                    [](const Argument&, int rank) { return Layout::padded(rank); });
}

TEST(DeviceCall, HasTheSameAnswerAsTheCallThatItStandsFor) {
  fla::cases::Random random(7);
  for (const fla::cases::KdaSpec& spec : fla::conformance::few_specs_of<fla::KdaArgs>()) {
    const KdaCase made = make_kda_case(spec);
    const Surrounded call(made.args, [&](const Argument&, int rank) { return Layout::random(rank, random); });
    for (const KdaArgs& args : {made.args, call.args}) {
      DeviceCall there(args, {});
      const KdaResult answer = there.bring_back(fla::original::chunk_kda(there.args()));
      EXPECT_EQ(there.damage(), "");
      const auto bytes = [](const fla::Tensor& tensor) {
        return tensor.defined() ? bytes_of(tensor) : std::vector<std::byte>();
      };
      const std::vector<std::byte> o = bytes(answer.o), state = bytes(answer.final_state);
      const KdaResult expected =
          fla::original::chunk_kda(args);  // into the same outputs where they are given
      EXPECT_EQ(o, bytes(expected.o));
      EXPECT_EQ(state, bytes(expected.final_state));
    }
    for (const LaidOut& output : call.outputs) EXPECT_TRUE(output.intact_around());
    for (const LaidOut& input : call.inputs) EXPECT_TRUE(input.intact());
  }
}

TEST(DeviceCall, HasMemoryOfItsOwnWithTheSameLayout) {
  const auto call = some_call();
  const DeviceCall there(call.args, {});
  for (const Argument& argument : KdaArgs::arguments()) {
    if (!argument.is_tensor() || !argument.tensor(&call.args).defined()) continue;
    const TensorView &here = argument.tensor(&call.args), &mirrored = argument.tensor(&there.args());
    EXPECT_NE(mirrored.data(), here.data()) << argument.name;
    EXPECT_TRUE(std::ranges::equal(mirrored.shape(), here.shape())) << argument.name;
    EXPECT_TRUE(std::ranges::equal(mirrored.strides(), here.strides())) << argument.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mirrored.data()) % 64,
              reinterpret_cast<std::uintptr_t>(here.data()) % 64)
        << argument.name;
    EXPECT_EQ(bytes_of(mirrored), bytes_of(here)) << argument.name;
  }
}

TEST(DeviceCall, FillsTheOutputsThatTheHostsCallGives) {
  const auto call = some_call();
  DeviceCall there(call.args, {});
  const KdaResult answer = there.bring_back(fla::original::chunk_kda(there.args()));
  EXPECT_EQ(answer.o.data(), call.args.out.data());
  EXPECT_EQ(answer.final_state.data(), call.args.final_state.data());
}

TEST(DeviceCall, KeepsAStateThatIsUpdatedInPlaceInOnePlace) {
  const KdaCase made = make_kda_case({.B = 2, .T = 5, .H = 2, .K = 8, .V = 8});
  const LaidOut state = LaidOut::copy_of(made.args.initial_state);
  KdaArgs args = made.args;
  args.initial_state = args.final_state = state;
  DeviceCall there(args, {});
  EXPECT_EQ(there.args().initial_state.data(), there.args().final_state.data());
  const KdaResult answer = there.bring_back(fla::original::chunk_kda(there.args()));
  EXPECT_EQ(there.damage(), "");
  EXPECT_EQ(answer.final_state.data(), state.view().data());
  EXPECT_TRUE(same_bits(answer, fla::original::chunk_kda(made.args)));
}

TEST(DeviceCall, KeepsAnOutputThatIsItsInputInOnePlace) {
  const fla_test::NormCall made({.V = 6}), other({.V = 6});
  fla::GatedRmsNormArgs args = made.args;
  args.out = args.x;
  DeviceCall there(args, {});
  EXPECT_EQ(there.args().out.data(), there.args().x.data());
  const fla::GatedRmsNormResult answer = there.bring_back(fla::original::gated_rms_norm(there.args()));
  EXPECT_EQ(there.damage(), "");
  EXPECT_EQ(answer.o.data(), made.x.data());
  EXPECT_EQ(bytes_of(answer.o), bytes_of(fla::original::gated_rms_norm(other.args).o));
}

TEST(DeviceCall, LeavesIndicesOnTheHostWhenAskedTo) {
  const KdaCase made = make_kda_case({.H = 1, .K = 8, .V = 8, .lengths = {3, 4}});
  const PooledCall pooled(made.args, {.writes = PoolWrites::moved});
  const DeviceCall there(pooled.args(), {}, DeviceIndices::on_host);
  EXPECT_EQ(there.args().cu_seqlens.data(), pooled.args().cu_seqlens.data());
  EXPECT_EQ(there.args().state_indices.data(), pooled.args().state_indices.data());
  EXPECT_EQ(there.args().state_write_indices.data(), pooled.args().state_write_indices.data());
  EXPECT_NE(DeviceCall(pooled.args(), {}).args().cu_seqlens.data(), pooled.args().cu_seqlens.data());
}

TEST(DeviceCall, TakesTheContentsOfAnotherCall) {
  const auto first = some_call(1), second = some_call(2);
  DeviceCall there(first.args, {});
  const void* const q = there.args().q.data();
  (void)there.bring_back(fla::original::chunk_kda(there.args()));
  there.load(second.args);
  EXPECT_EQ(there.args().q.data(), q);
  const KdaResult answer = there.bring_back(fla::original::chunk_kda(there.args()));
  EXPECT_EQ(answer.o.data(), second.args.out.data());
  EXPECT_TRUE(same_bits(answer, fla::original::chunk_kda(some_call(2).args)));
}

TEST(DeviceCall, ShowsWhatIsWrittenBesideTheOutputs) {
  const auto damage = [](auto&& harm) {
    const auto call = some_call();
    DeviceCall there(call.args, {});
    const KdaResult result = fla::original::chunk_kda(there.args());
    harm(there.args());
    (void)there.bring_back(result);
    return there.damage();
  };
  EXPECT_EQ(damage([](const KdaArgs&) {}), "");
  EXPECT_EQ(damage([](const KdaArgs& args) { args.q.as<char>()[0] ^= 1; }), "wrote into q; ");
  EXPECT_EQ(damage([](const KdaArgs& args) { args.k.as<char>()[args.k.extent().end] = 0; }),
            "wrote around k; wrote into k; ");
  EXPECT_EQ(damage([](const KdaArgs& args) { args.out.as<char>()[-1] = 0; }), "wrote around out; ");
  EXPECT_EQ(
      damage([](const KdaArgs& args) { static_cast<char*>(args.workspace.data)[args.workspace.bytes] = 0; }),
      "wrote around the workspace; ");
}

}  // namespace
