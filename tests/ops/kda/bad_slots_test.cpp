#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <functional>
#include <string>

#include "fla/core/cuda_devices.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;
using fla::conformance::LaidOut;

/// A call that is right: five packed sequences over a pool of eight slots that is updated in place, the third
/// one skipped, the fourth one's state written nowhere.
struct SlotCall {
  fla::cases::KdaCase made =
      fla::cases::make_kda_case({.H = 1, .K = 4, .V = 5, .lengths = {2, 0, 4, 1, 1}, .initial_state = false});
  std::array<std::int64_t, 5> read{6, 0, -1, 3, 2};
  std::array<std::int32_t, 5> write{7, 0, 6, -5, 4};
  LaidOut pool{std::array<std::int64_t, 4>{8, 1, 4, 5}, DType::f32};
  LaidOut other_pool{std::array<std::int64_t, 4>{8, 1, 4, 5}, DType::f32};
  LaidOut out{std::array<std::int64_t, 4>{1, 8, 1, 5}, DType::f32};
  KdaArgs args = made.args;

  SlotCall() {
    args.out = out;
    args.initial_state = args.final_state = pool;
    args.state_indices = {read.data(), DType::i64, {5}};
    args.state_write_indices = {write.data(), DType::i32, {5}};
  }
};

struct SlotDefect {
  const char* name;
  std::function<void(SlotCall&)> spoil;
  std::string argument, message;
};

class KdaBadSlots : public testing::TestWithParam<SlotDefect> {};

TEST_P(KdaBadSlots, AreRefusedByEveryFunctionBeforeAnythingRuns) {
  const SlotDefect& defect = GetParam();
  SlotCall call;
  defect.spoil(call);
  fla_test::expect_refusal(call.args, defect.argument, defect.message);
  EXPECT_TRUE(call.out.intact() && call.pool.intact() && call.other_pool.intact()) << "something was written";
}

const SlotDefect kSlotDefects[] = {
    {"ReadBehindThePool", [](SlotCall& c) { c.read[3] = 17; }, "state_indices",
     "expected entries below P=8, got state_indices[3]=17"},
    {"ReadJustBehindThePool", [](SlotCall& c) { c.read[0] = 8; }, "state_indices",
     "expected entries below P=8, got state_indices[0]=8"},
    {"ReadFarBehindThePool", [](SlotCall& c) { c.read[4] = std::int64_t{1} << 40; }, "state_indices",
     "expected entries below P=8, got state_indices[4]=1099511627776"},
    {"WriteBehindThePool", [](SlotCall& c) { c.write[1] = 9; }, "state_write_indices",
     "expected entries below P=8, got state_write_indices[1]=9"},
    {"WriteBehindThePoolForASkippedSequence", [](SlotCall& c) { c.write[2] = 8; }, "state_write_indices",
     "expected entries below P=8, got state_write_indices[2]=8"},
    {"ReadOfAnEmptyPool",
     [](SlotCall& c) {
       c.args.initial_state = c.args.final_state = {nullptr, DType::f32, {0, 1, 4, 5}};
     },
     "state_indices", "expected entries below P=0, got state_indices[0]=6"},

    {"SlotWrittenTwice", [](SlotCall& c) { c.write[4] = 7; }, "state_write_indices",
     "expected slots that are written once, got state_write_indices[0]=7 and "
     "state_write_indices[4]=7"},
    {"SlotWrittenTwiceApart",
     [](SlotCall& c) {
       c.args.final_state = c.other_pool;
       c.write[1] = 4;
     },
     "state_write_indices",
     "expected slots that are written once, got state_write_indices[1]=4 and "
     "state_write_indices[4]=4"},
    {"SlotReadAndWrittenTwice",
     [](SlotCall& c) {
       c.args.state_write_indices = {};
       c.read[4] = 6;
     },
     "state_indices", "expected slots that are written once, got state_indices[0]=6 and state_indices[4]=6"},
    {"SlotThatAnotherSequenceReads", [](SlotCall& c) { c.write[0] = 2; }, "state_write_indices",
     "expected slots that no other sequence reads, got state_write_indices[0]=2 and state_indices[4]=2"},
    {"SlotThatAnEarlierSequenceReads", [](SlotCall& c) { c.write[4] = 6; }, "state_write_indices",
     "expected slots that no other sequence reads, got state_write_indices[4]=6 and state_indices[0]=6"},

    {"WritesWithoutReads", [](SlotCall& c) { c.args.state_indices = {}; }, "state_indices",
     "expected a tensor of shape [N=5] with state_write_indices, got none"},
    {"WritesWithoutAPool", [](SlotCall& c) { c.args.final_state = {}; }, "final_state",
     "expected the pool that state_write_indices name slots of, got none"},
    {"FinalStateWithoutAPool", [](SlotCall& c) { c.args.final_state = c.args.state_write_indices = {}; },
     "final_state", "expected the pool to write to with state_indices and output_final_state, got none"},
    {"ReadsWithoutStates",
     [](SlotCall& c) {
       c.args.initial_state = c.args.final_state = c.args.state_write_indices = {};
       c.args.output_final_state = false;
     },
     "state_indices", "expected initial_state or final_state, whose slots they name, got neither"},

    {"LengthOfTheReads",
     [](SlotCall& c) {
       c.args.state_indices = {c.read.data(), DType::i64, {4}};
     },
     "state_indices", "expected shape [N=5], got [4]"},
    {"RankOfTheWrites",
     [](SlotCall& c) {
       c.args.state_write_indices = {c.write.data(), DType::i32, {5, 1}};
     },
     "state_write_indices", "expected shape [N=5], got [5, 1]"},
    {"TypeOfTheReads",
     [](SlotCall& c) {
       c.args.state_indices = {c.read.data(), DType::f32, {5}};
     },
     "state_indices", "expected dtype i32 or i64, got f32"},
    {"NullReads",
     [](SlotCall& c) {
       c.args.state_indices = {nullptr, DType::i64, {5}};
     },
     "state_indices", "expected i64[5] on cpu, got a null pointer"},
    {"ReadsOnAnotherDevice",
     [](SlotCall& c) {
       c.args.state_indices = {c.read.data(), DType::i64, {5}, {fla::DeviceType::cuda, 0}};
     },
     "state_indices", "expected device cpu, got cuda:0"},
    {"PoolsOfTwoSizes", [](SlotCall& c) { c.args.final_state = c.other_pool.view().slice(0, 0, 7); },
     "final_state", "expected shape [P=8, HV=1, K=4, V=5], got [7, 1, 4, 5]"},
    {"LayoutOfThePool", [](SlotCall& c) { c.args.state_v_first = true; }, "initial_state",
     "expected shape [P=8, HV=1, V=5, K=4], got [8, 1, 4, 5]"},
    {"PoolsThatOverlapInPart",
     [](SlotCall& c) {
       c.args.initial_state = c.pool.view().slice(0, 0, 7);
       c.args.final_state = c.pool.view().slice(0, 1, 7);
     },
     "final_state", "expected memory of its own, got some that overlaps initial_state"},
    {"PoolWithoutIndices", [](SlotCall& c) { c.args.state_indices = c.args.state_write_indices = {}; },
     "initial_state", "expected shape [N=5, HV=1, K=4, V=5], got [8, 1, 4, 5]"},
    {"IndicesOverTheOutput",
     [](SlotCall& c) {
       c.args.state_indices = {c.out.view().data(), DType::i64, {5}};
     },
     "out", "expected memory of its own, got some that overlaps state_indices"},
};

INSTANTIATE_TEST_SUITE_P(Defects, KdaBadSlots, testing::ValuesIn(kSlotDefects),
                         [](const auto& test) { return test.param.name; });

TEST(KdaGoodSlots, AreWhatTheDefectsStartFrom) {
  SlotCall call;
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
}

TEST(KdaGoodSlots, SlotsThatAreOnlyReadMayBeShared) {
  SlotCall call;
  call.read = {5, 5, 5, 5, 5};
  call.write = {0, 1, 2, -1, 3};
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  call.args.final_state = call.args.state_write_indices = {};
  call.args.output_final_state = false;
  EXPECT_NO_THROW(fla::validate_arguments(call.args)) << "nothing is written";
}

TEST(KdaGoodSlots, WhatIsWrittenMayBeReadByOthersFromAnotherPool) {
  SlotCall call;
  call.write = {2, 3, 6, 0, 1};
  call.args.final_state = call.other_pool;
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
}

TEST(KdaGoodSlots, ASkippedSequenceNeitherReadsNorWrites) {
  SlotCall call;
  call.write[2] = 7;  // as the first sequence does
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  call.write[2] = 3;  // which the fourth reads
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
}

TEST(KdaGoodSlots, ManyAreToldApart) {
  constexpr std::int64_t kSequences = 513, kSlots = std::int64_t{1} << 33;
  std::array<float, 4> token{};
  constexpr std::array<std::int64_t, 4> shape{kSequences, 1, 1, 4}, still{0, 0, 0, 1};
  constexpr std::array<std::int64_t, 3> beta_shape{kSequences, 1, 1}, beta_still{0, 0, 0};
  constexpr std::array<std::int64_t, 4> pool{kSlots, 1, 4, 4}, pool_strides{16, 16, 4, 1};
  const TensorView tokens(token.data(), DType::f32, shape, still);
  std::vector<std::int64_t> read(kSequences), write(kSequences);
  for (std::int64_t n = 0; n < kSequences; ++n) {
    read[static_cast<std::size_t>(n)] = n * 16'000'000;
    write[static_cast<std::size_t>(n)] = n * 16'000'000 + 1;
  }
  // Nobody touches the pool: only a call that is refused would be safe to run.
  const TensorView states(reinterpret_cast<const void*>(1 << 20), DType::f32, pool, pool_strides);
  const KdaArgs args{.q = tokens,
                     .k = tokens,
                     .v = tokens,
                     .g = tokens,
                     .beta = {token.data(), DType::f32, beta_shape, beta_still},
                     .initial_state = states,
                     .state_indices = {read.data(), DType::i64, {kSequences}},
                     .state_write_indices = {write.data(), DType::i64, {kSequences}},
                     .final_state = states};
  EXPECT_NO_THROW(fla::validate_arguments(args));
  write[512] = write[3];
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { fla::validate_arguments(args); }),
            "kda: state_write_indices: expected slots that are written once, got "
            "state_write_indices[3]=48000001 and state_write_indices[512]=48000001");
  write[512] = read[77];
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { fla::validate_arguments(args); }),
            "kda: state_write_indices: expected slots that no other sequence reads, got "
            "state_write_indices[512]=1232000000 and state_indices[77]=1232000000");
}

// ---- on a device

/// The call as it would be on a GPU, with indices in memory that ends the program when somebody reads it.
class KdaDeviceIndices : public testing::Test {
 protected:
  KdaDeviceIndices() {
    for (const fla::Argument& argument : KdaArgs::arguments()) {
      if (!argument.is_tensor()) continue;
      TensorView& tensor = argument.tensor(&call_.args);
      if (!tensor.defined()) continue;
      const void* data = argument.kind == fla::ArgumentKind::index ? untouchable_ : tensor.data();
      tensor = TensorView(data, tensor.dtype(), tensor.shape(), {fla::DeviceType::cuda, 0});
    }
  }
  ~KdaDeviceIndices() override { ::munmap(untouchable_, kBytes); }

  static constexpr std::size_t kBytes = 1 << 12;
  void* untouchable_ = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SlotCall call_;
};

TEST_F(KdaDeviceIndices, AreNotReadByTheValidation) { EXPECT_NO_THROW(fla::validate_arguments(call_.args)); }

TEST_F(KdaDeviceIndices, AreHeldToWhatMetadataCanTell) {
  call_.args.final_state = {};
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { fla::validate_arguments(call_.args); }),
            "kda: final_state: expected the pool that state_write_indices name slots of, got none");
}

TEST_F(KdaDeviceIndices, AreCopiedFirstWhereTheEnvironmentAsksForIt) {
  if (!fla::cuda_devices().empty()) GTEST_SKIP() << "not run: the memory of this test is no GPU's";
  const fla_test::ReloadedEnvironment checked{{"FLA_CHECK_INDICES", "1"}};
  EXPECT_THROW(fla::validate_arguments(call_.args), fla::InvalidArgument) << "there is no GPU to copy from";
}

}  // namespace
