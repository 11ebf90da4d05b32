#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// cu_seqlens and state indices on the device may hold anything: nobody has looked at them before kernels do.
namespace {

using fla::DType;
using fla::InvalidArgument;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::LaidOut;
using fla::conformance::PooledCall;
using fla::conformance::PoolWrites;
using fla::conformance::Surrounded;
using fla_test::error_text;
using fla_test::kEveryWay;
using fla_test::kGpu;

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

/// An index tensor like `like` with these entries; those that int32 does not have wrap around.
LaidOut entries(const TensorView& like, const std::vector<std::int64_t>& values) {
  LaidOut made = LaidOut::copy_of(like);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (like.dtype() == DType::i32) {
      made.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
    } else {
      made.view().as<std::int64_t>()[i] = values[i];
    }
  }
  made.remember();
  return made;
}

class IndexContents : public fla_test::OnGpu<testing::TestWithParam<DType>> {
 protected:
  /// Four sequences of 200 tokens.
  KdaCase packed_call(std::int64_t channels = 64) const {
    return make_kda_case({.H = 2,
                          .K = channels,
                          .V = channels,
                          .lengths = {10, 70, 0, 120},
                          .dtype = DType::bf16,
                          .index_dtype = GetParam()});
  }
};

const std::vector<std::vector<std::int64_t>> kBadStarts{
    {0, 80, 10, 10, 200},    // falls
    {200, 150, 100, 50, 0},  // falls everywhere
    {0, 200, 0, 200, 0},     // has every token twice
    {0, 200, 5, 200, 9},
    {0, 10, 80, 80, 201},              // ends beyond T
    {0, 1000, 2000, 3000, 4000},       // far beyond T
    {-5, -4, -3, -2, -1},              // negative
    {-1000, 50, -1000, 300, 200},      // all of it
    {kFar, -kFar, kFar, -kFar, kFar},  // at the ends of int64
    {0, std::int64_t{1} << 33, -(std::int64_t{1} << 33), std::int64_t{1} << 40, 200},
};

TEST_P(IndexContents, OutOfRangeStartsStayInBounds) {
  for (const std::int64_t channels : {64, 128}) {
    const KdaCase made = packed_call(channels);
    for (const auto& starts : kBadStarts) {
      for (const auto& [name, run] : kEveryWay) {
        const Surrounded call(made.args);
        KdaArgs args = call.args;
        const LaidOut bad = entries(args.cu_seqlens, starts);
        args.cu_seqlens = bad;
        DeviceCall there(args, kGpu);
        (void)there.bring_back(run(there.args()));
        EXPECT_EQ(there.damage(), "") << name;
        for (const LaidOut& output : call.outputs) EXPECT_TRUE(output.intact_around()) << name;
      }
    }
  }
}

const std::vector<std::vector<std::int64_t>> kBadSlots{
    {11, 12, 100, 1000}, {-1, -2, -100, 11}, {kFar, -kFar, kFar - 1, std::int64_t{1} << 33}, {3, 3, 3, 3}};

TEST_P(IndexContents, OutOfRangeSlotsStayInBounds) {
  for (const auto& [tokens, channels] : {std::pair{1, 64}, std::pair{20, 64}, std::pair{20, 128}}) {
    const KdaCase made =
        make_kda_case({.B = 4, .T = tokens, .H = 2, .K = channels, .V = channels, .dtype = DType::bf16});
    for (const auto writes : {PoolWrites::in_place, PoolWrites::moved, PoolWrites::apart}) {
      for (const auto& read : kBadSlots) {
        for (const auto& write : kBadSlots) {
          const PooledCall pooled(made.args, {.writes = writes, .skips = false, .index_dtype = GetParam()});
          KdaArgs args = pooled.args();
          const LaidOut bad_read = entries(args.state_indices, read);
          const LaidOut bad_write = entries(args.state_indices, write);
          args.state_indices = bad_read;
          if (args.state_write_indices.defined()) args.state_write_indices = bad_write;
          for (const auto& [name, run] : kEveryWay) {
            DeviceCall there(args, kGpu);
            (void)there.bring_back(run(there.args()));
            EXPECT_EQ(there.damage(), "") << name;
          }
          if (!args.state_write_indices.defined()) break;
        }
      }
    }
  }
}

TEST_P(IndexContents, SlotsBeyondThePoolCountAsNegative) {
  for (const std::int64_t tokens : {1, 40}) {
    const KdaCase made = make_kda_case({.B = 7, .T = tokens, .H = 2, .K = 64, .V = 64, .dtype = DType::bf16});
    const auto reference = fla::cases::reference_of(made.args);
    for (const auto writes : {PoolWrites::in_place, PoolWrites::moved, PoolWrites::nowhere}) {
      for (const auto& [name, run] : kEveryWay) {
        const PooledCall pooled(made.args, {.writes = writes, .skips = true, .index_dtype = GetParam()});
        KdaArgs args = pooled.args();
        const std::int64_t slots = args.initial_state.size(0);
        const auto beyond = [&](const TensorView& indices) {
          std::vector<std::int64_t> changed;
          for (std::int64_t n = 0; n < indices.size(0); ++n) {
            const std::int64_t slot =
                indices.dtype() == DType::i32 ? indices.as<std::int32_t>()[n] : indices.as<std::int64_t>()[n];
            changed.push_back(slot < 0 ? slots + n : slot);
          }
          return entries(indices, changed);
        };
        const LaidOut read = beyond(args.state_indices);
        args.state_indices = read;
        std::vector<LaidOut> write;
        if (args.state_write_indices.defined())
          args.state_write_indices = write.emplace_back(beyond(args.state_write_indices));
        DeviceCall there(args, kGpu);
        EXPECT_EQ(pooled.wrong(there.bring_back(run(there.args())), reference), "") << name;
        EXPECT_EQ(there.damage(), "") << name;
      }
    }
  }
}

TEST_P(IndexContents, SlotsBeyondAPoolThatIsOnlyWrittenCountAsNegative) {
  std::set<std::string> selected_backends;
  for (const auto& [tokens, channels] :
       {std::pair{1, 64}, std::pair{1, 128}, std::pair{70, 64}, std::pair{70, 128}, std::pair{70, 256}}) {
    const KdaCase made = make_kda_case({.B = 4,
                                        .T = tokens,
                                        .H = 2,
                                        .K = channels,
                                        .V = channels,
                                        .dtype = DType::bf16,
                                        .initial_state = false});
    constexpr std::int64_t kSlots = 3;
    const fla::Tensor pool = fla::Tensor::zeros({kSlots, 2, channels, channels}, DType::f32),
                      indices = fla::Tensor::zeros({4}, GetParam());
    for (std::int64_t i = 0; i < pool.numel(); ++i) pool.as<float>()[i] = 7;
    KdaArgs args = made.args;
    args.final_state = pool;
    const LaidOut skipped = entries(indices, {2, -1, -1, 0}), beyond = entries(indices, {2, kSlots, kFar, 0});
    args.state_indices = skipped;
    const auto reference = fla::cases::reference_of(args);
    args.state_indices = beyond;
    for (const auto& [name, run] : kEveryWay) {
      DeviceCall there(args, kGpu);
      const std::string selected = fla_test::selected_backend(name, there.args());
      selected_backends.insert(selected);
      const KdaResult result = there.bring_back(run(there.args()));
      EXPECT_EQ(there.damage(), "") << name << " " << selected;
      fla_test::expect_within_bars(result, reference, args, name, selected);
      const std::int64_t outputs = result.o.numel() / 4, slot = result.final_state.numel() / kSlots;
      for (std::int64_t i = outputs; i < 3 * outputs; ++i)
        ASSERT_EQ(fla::cases::element(result.o, i), 0) << name << " " << selected;
      for (std::int64_t i = slot; i < 2 * slot; ++i)
        ASSERT_EQ(fla::cases::element(result.final_state, i), 7) << name << " " << selected;
    }
  }
  EXPECT_TRUE(selected_backends.contains("original"));
  for (const char* backend : {"cuda_decode", "flash_kda", "tilelang"}) {
    if (fla_test::why_without(backend).empty()) {
      EXPECT_TRUE(selected_backends.contains(backend)) << backend;
    }
  }
}

TEST_P(IndexContents, AreCheckedOnTheDeviceWhenTheDebugSwitchIsOn) {
  const fla_test::ReloadedEnvironment checked({{"FLA_CHECK_INDICES", "1"}});
  const KdaCase made = packed_call();
  KdaArgs args = made.args;
  const auto text = [&args] {
    return error_text<InvalidArgument>([&] { (void)fla::kda(DeviceCall(args, kGpu).args()); });
  };
  EXPECT_EQ(text(), "nothing was thrown");
  const LaidOut falls = entries(args.cu_seqlens, {0, 80, 10, 10, 200});
  args.cu_seqlens = falls;
  EXPECT_EQ(text(),
            "kda: cu_seqlens: expected entries that never fall, got cu_seqlens[1]=80 and cu_seqlens[2]=10");
  const LaidOut negative = entries(args.cu_seqlens, {-5, 0, 0, 0, 200});
  args.cu_seqlens = negative;
  EXPECT_EQ(text(), "kda: cu_seqlens: expected a first entry of 0, got cu_seqlens[0]=-5");
  const LaidOut beyond = entries(args.cu_seqlens, {0, 10, 80, 80, 201});
  args.cu_seqlens = beyond;
  EXPECT_EQ(text(), "kda: cu_seqlens: expected a last entry of at most T=200, got cu_seqlens[4]=201");
}

TEST_P(IndexContents, OfSlotsAreCheckedOnTheDeviceWhenTheDebugSwitchIsOn) {
  const fla_test::ReloadedEnvironment checked({{"FLA_CHECK_INDICES", "1"}});
  const KdaCase made = make_kda_case({.B = 4, .T = 1, .H = 2, .K = 64, .V = 64});
  const PooledCall pooled(made.args, {.skips = false, .index_dtype = GetParam()});
  KdaArgs args = pooled.args();
  const auto text = [&args] {
    return error_text<InvalidArgument>([&] { (void)fla::kda(DeviceCall(args, kGpu).args()); });
  };
  EXPECT_EQ(text(), "nothing was thrown");
  const LaidOut beyond = entries(args.state_indices, {0, 1, 2, 17});
  args.state_indices = beyond;
  EXPECT_EQ(text(), "kda: state_indices: expected entries below P=11, got state_indices[3]=17");
  const LaidOut twice = entries(args.state_indices, {0, 4, 2, 4});
  args.state_indices = twice;
  EXPECT_EQ(text(),
            "kda: state_indices: expected slots that are written once, got state_indices[1]=4 and "
            "state_indices[3]=4");
}

INSTANTIATE_TEST_SUITE_P(Types, IndexContents, testing::Values(DType::i32, DType::i64),
                         [](const auto& test) { return std::string(fla::name_of(test.param)); });

}  // namespace
