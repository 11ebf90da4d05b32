#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "fla/core/tensor.h"
#include "fla/ops/common/views_of.h"
#include "fla/ops/kda/kda.h"
#include "fla/ops/recurrence/call_of.h"

/// A call of kda as kernels of CPUs and GPUs see it.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::RecurrenceCall;
using fla::Tensor;
using fla::TensorView;
using fla::common::kAnySlot;
using fla::common::slots_of;

constexpr std::int64_t kSequences = 4, kPool = 3;

/// A call of four sequences with indices, and with whichever pools are asked for.
class KdaSlotsOfACall : public testing::Test {
 protected:
  RecurrenceCall call(bool initial, bool final) {
    KdaArgs args{.q = tokens_, .k = tokens_, .v = tokens_, .g = tokens_, .beta = beta_};
    if (initial) args.initial_state = pool_;
    if (final) args.final_state = pool_;
    args.state_indices = {read_.data(), DType::i32, {kSequences}};
    args.state_write_indices = {write_.data(), DType::i64, {kSequences}};
    return call_of(args, {.o = tokens_, .final_state = final ? pool_ : Tensor()});
  }

  const Tensor tokens_ = Tensor::empty({kSequences, 1, 1, 2}, DType::f32);
  const Tensor beta_ = Tensor::empty({kSequences, 1, 1}, DType::f32);
  const Tensor pool_ = Tensor::empty({kPool, 1, 2, 2}, DType::f32);
  std::array<std::int32_t, kSequences> read_{2, kPool, -7, 0};
  std::array<std::int64_t, kSequences> write_{0, 1, 1, std::int64_t{1} << 32};
};

TEST_F(KdaSlotsOfACall, OutOfRangeIndicesCountAsNegative) {
  const RecurrenceCall both = call(true, true);
  EXPECT_EQ(slots_of(both, 0).read, 2);
  EXPECT_EQ(slots_of(both, 0).write, 0);
  EXPECT_EQ(slots_of(both, 1).read, -1);
  EXPECT_EQ(slots_of(both, 2).read, -1);
  EXPECT_EQ(slots_of(both, 3).read, 0);
  EXPECT_EQ(slots_of(both, 3).write, -1);
  EXPECT_EQ(slots_of<std::int32_t>(both, 3).write, -1) << "not its low bits";
}

TEST_F(KdaSlotsOfACall, PoolIsThatOfTheFinalStateWithoutAnInitialState) {
  EXPECT_EQ(call(false, true).initial_state.slots, kPool);
  EXPECT_EQ(slots_of(call(false, true), 1).read, -1);
}

TEST_F(KdaSlotsOfACall, NoIndexIsOutOfRangeWithoutAPool) {
  EXPECT_EQ(call(false, false).initial_state.slots, kAnySlot);
  EXPECT_EQ(slots_of(call(false, false), 1).read, kPool);
  EXPECT_EQ(slots_of(call(false, false), 1).write, -1);
}

TEST_F(KdaSlotsOfACall, NothingIsWrittenWithoutAFinalState) {
  EXPECT_EQ(slots_of(call(true, false), 0).write, -1);
}

TEST_F(KdaSlotsOfACall, WritesTheSlotThatIsReadWithoutWriteIndices) {
  RecurrenceCall both = call(true, true);
  both.write_slots = {};
  EXPECT_EQ(slots_of(both, 0).write, 2);
  both.read_slots = {};
  EXPECT_EQ(slots_of(both, 1).read, 1);
  EXPECT_EQ(slots_of(both, 1).write, 1);
}

TEST(KdaSequencesOfACall, OutOfRangeStartsStayInBounds) {
  const std::array<std::int32_t, 5> starts{-3, 4, 2, 9, 1};
  const RecurrenceCall call{.T = 6, .N = 4, .cu_seqlens = {.data = starts.data()}};
  const auto tokens = [&](std::int64_t n) {
    const fla::Sequence sequence = sequence_of(call, n);
    return std::array{sequence.batch, sequence.begin, sequence.end};
  };
  EXPECT_EQ(tokens(0), (std::array<std::int64_t, 3>{0, 0, 4}));
  EXPECT_EQ(tokens(1), (std::array<std::int64_t, 3>{0, 4, 4}));
  EXPECT_EQ(tokens(2), (std::array<std::int64_t, 3>{0, 2, 6}));
  EXPECT_EQ(tokens(3), (std::array<std::int64_t, 3>{0, 6, 6}));
}

TEST(KdaCallStrides, CountElementsWhateverTheDtype) {
  const std::array<std::int64_t, 4> shape{2, 3, 2, 8}, strides{600, 100, 16, 1};
  const std::vector<std::uint16_t> memory(1200);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto rows = fla::common::rows_of({memory.data(), dtype, shape, strides});
    EXPECT_EQ(rows.batch, 600);
    EXPECT_EQ(rows.token, 100);
    EXPECT_EQ(rows.head, 16);
    EXPECT_EQ(rows.channel, 1);
  }
  const auto states = fla::common::states_of({memory.data(), DType::bf16, shape, strides}, true);
  EXPECT_EQ(states.slots, 2);
  EXPECT_EQ(states.offset(1, 2), 800);
  EXPECT_EQ(states.key, 1);
  EXPECT_EQ(states.value, 16);
}

TEST(KdaCallParameters, OfOneAxisHaveTheirChannelsThere) {
  const std::array<float, 12> memory{};
  const TensorView flat(memory.data(), DType::f32, {12}), table(memory.data(), DType::f32, {3, 4});
  for (const TensorView& bias : {flat, table}) {
    EXPECT_EQ(fla::common::parameters_of(bias, 4).head, 4);
    EXPECT_EQ(fla::common::parameters_of(bias, 4).channel, 1);
  }
  EXPECT_EQ(fla::common::parameters_of(flat).head, 1);
  EXPECT_EQ(fla::common::parameters_of(flat).channel, 0);
  EXPECT_EQ(fla::common::parameters_of({}).data, nullptr);
}

}  // namespace
