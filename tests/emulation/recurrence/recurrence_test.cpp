#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulation/block.h"
#include "tests/emulation/recurrence/forward.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/laid_out.h"

/// The original kernels for GPUs of every op, forward and backward, compiled by the C++ compiler and run on
/// the CPU.
namespace {

using fla::DType;
using fla::RecurrenceResult;
using fla::cases::DataKind;
using fla::conformance::bytes_of;
using fla::emulation::block::Schedule;
using fla_test::poison;
using fla_test::run_emulated;
using fla_test::workspace_of;

template <class Args>
fla::RecurrenceGradients run_back(const Args& args, std::int64_t window = 0) {
  fla::RecurrenceGradients gradients = fla::make_result(args);
  for (const auto& [name, gradient] : fla::cases::named_gradients(gradients)) poison(gradient);
  const fla::BackwardCall call = fla::call_of(args, gradients);
  const auto workspace = workspace_of(fla::cuda::backward_workspace(call, window));
  EXPECT_EQ(fla::cuda::launch_backward(call, workspace.get(), nullptr, window), cudaSuccess);
  return gradients;
}

template <class Args>
RecurrenceResult run_chunks(const Args& args) {
  return run_emulated(args, fla::cuda::chunk_workspace, fla::cuda::launch_chunk);
}
template <class Args>
RecurrenceResult run_tokens(const Args& args) {
  return run_emulated(args, fla::cuda::recurrent_workspace, fla::cuda::launch_recurrent);
}

template <class Args>
class EmulatedRecurrence : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;

  ~EmulatedRecurrence() override { fla::emulation::block::set_schedule({}); }

  /// Every size of kernels, a group of heads, sequences that are empty, short and long, every kind of gates.
  static std::vector<Spec> specs() {
    std::vector<Spec> specs{{.B = 2, .T = 37, .H = 1, .HV = 2, .K = 24, .V = 40},
                            {.H = 1, .K = 128, .V = 48},
                            {.T = 21, .H = 1, .K = 200, .V = 20},
                            {.T = 67, .H = 1, .K = 64, .V = 33, .dtype = DType::bf16},
                            {.T = 40, .H = 1, .K = 33, .V = 16}};
    specs[1].lengths = {5, 0, 40, 1};
    specs[2].data = DataKind::strong;
    specs[2].options.output_final_state = false;
    specs[3].data = DataKind::slow;
    specs[3].options.state_v_first = true;
    specs[4].data = DataKind::resets;
    specs[4].initial_state = false;
    fla_test::add_options(specs, specs[0], specs[1]);
    return specs;
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(EmulatedRecurrence, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(EmulatedRecurrence, ForwardAgreesWithTheReference) {
  for (const auto& spec : this->specs()) {
    const auto made = fla::cases::make_case(spec);
    const auto reference = fla::cases::reference_of(made.args);
    const double tolerance = fla::cases::tolerance(spec.dtype);
    const auto expect_right = [&](const RecurrenceResult& result, const char* which) {
      const fla::cases::Errors errors = fla::cases::errors_of(result, reference);
      EXPECT_LE(errors.o, tolerance) << which << " K=" << spec.K << " V=" << spec.V;
      EXPECT_LE(errors.final_state, 2e-5) << which << " K=" << spec.K << " V=" << spec.V;
    };
    expect_right(run_chunks(made.args), "chunks");
    expect_right(run_tokens(made.args), "tokens");
  }
}

TYPED_TEST(EmulatedRecurrence, CheckpointsAgreeWithTheReference) {
  for (auto spec : this->specs()) {
    const auto plain = fla::cases::make_case(spec);
    spec.checkpoints = 3;
    for (const std::int64_t every : {32, 7}) {  // between chunks, and inside of them
      spec.options.checkpoint_every = every;
      const auto expect_right = [&](auto&& run, bool same, const char* which) {
        const auto made = fla::cases::make_case(spec);
        const auto reference = fla::cases::reference_of(made.args);
        const RecurrenceResult result = run(made.args);
        EXPECT_LE(fla::cases::checkpoint_error(made.args.checkpoints, reference), 2e-5) << which << spec.K;
        EXPECT_TRUE(fla::cases::rest_holds(made.args.checkpoints, reference, 0.125)) << which << spec.K;
        if (!same) return;
        const RecurrenceResult without = run(plain.args);
        const auto bytes = static_cast<std::size_t>(result.o.numel()) * size_of(result.o.dtype());
        EXPECT_EQ(std::memcmp(result.o.data(), without.o.data(), bytes), 0) << which << spec.K;
      };
      expect_right(run_chunks<TypeParam>, every == 32, "chunks ");
      expect_right(run_tokens<TypeParam>, true, "tokens ");
    }
  }
}

TYPED_TEST(EmulatedRecurrence, CheckpointsGoIntoSlots) {
  for (const std::int64_t every : {32, 7, 1}) {
    typename TestFixture::Spec spec{.H = 1, .HV = 2, .K = 24, .V = 40, .lengths = {5, 0, 40, 1, 33}};
    spec.options.checkpoint_every = every;
    spec.pool = 24;
    spec.checkpoints = 3;
    spec.checkpoint_indices = true;
    spec.accepted_tokens = every == 1;
    for (const auto& run : {run_chunks<TypeParam>, run_tokens<TypeParam>}) {
      const auto made = fla::cases::make_case(spec);
      const auto reference = fla::cases::reference_of(made.args);
      const auto before = fla::conformance::LaidOut::copy_of(made.args.final_state);
      const RecurrenceResult result = run(made.args);
      const fla::cases::Errors errors = fla::cases::errors_of(result, reference);
      EXPECT_LE(errors.worst(), 2e-5) << every;
      for (std::int64_t slot = 0; slot < *spec.pool; ++slot) {
        if (std::ranges::find(reference.slots, slot) != reference.slots.end()) continue;
        EXPECT_EQ(bytes_of(result.final_state.view().slice(0, slot, 1)),
                  bytes_of(before.view().slice(0, slot, 1)))
            << every;
      }
    }
  }
}

TYPED_TEST(EmulatedRecurrence, IndicesOutOfRangeStayInBounds) {
  typename TestFixture::Spec spec{.B = 4, .T = 3, .H = 1, .K = 24, .V = 40};
  spec.options.checkpoint_every = 1;
  const auto made = fla::cases::make_case(spec);
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  std::array<std::int64_t, 4> first{0, 1, 2, 3}, accepted{0, -1, 4, 1};
  std::array<std::int64_t, 12> slots{4, kHuge, 6, 7, 8, 9, 10, 11, 12, 15, -kHuge, 14};
  const fla::Tensor pool = fla::Tensor::zeros({15, 1, 24, 40}, DType::f32);
  auto args = made.args;
  args.checkpoints = {};
  args.initial_state = args.final_state = pool;
  args.state_indices = {first.data(), DType::i64, {4}};
  args.checkpoint_indices = {slots.data(), DType::i64, {4, 3}};
  args.num_accepted_tokens = {accepted.data(), DType::i64, {4}};
  // Counts outside of [0, 3] skip their sequences, and so does a slot outside of the pool that is read.
  auto right = args;
  std::array<std::int64_t, 4> right_first{0, -1, -1, -1}, right_accepted{};
  std::array<std::int64_t, 12> right_slots{4, -1, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const fla::Tensor right_pool = fla::Tensor::zeros(pool.shape(), DType::f32);
  right.initial_state = right.final_state = right_pool;
  right.state_indices = {right_first.data(), DType::i64, {4}};
  right.checkpoint_indices = {right_slots.data(), DType::i64, {4, 3}};
  right.num_accepted_tokens = {right_accepted.data(), DType::i64, {4}};
  EXPECT_EQ(bytes_of(run_tokens(args).o), bytes_of(run_tokens(right).o));
  EXPECT_EQ(bytes_of(pool), bytes_of(right_pool));
}

TYPED_TEST(EmulatedRecurrence, GradientsAgreeWithTheReference) {
  for (const auto& spec : this->specs()) {
    const fla::cases::BackwardCase<TypeParam> call(spec);
    const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(call.args));
    const auto gradients = fla::cases::named_gradients(run_back(call.args));
    const double tolerance = spec.dtype == DType::f32 ? 2e-5 : fla::cases::gradient_tolerance(spec.dtype);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].second.defined()) continue;
      EXPECT_LE(fla::cases::gradient_error(gradients[i].second, reference[i].second), tolerance)
          << gradients[i].first << " K=" << spec.K << " V=" << spec.V;
    }
  }
}

TYPED_TEST(EmulatedRecurrence, GradientsHaveTheSameBitsInWindowsOrdersOfThreadsAndWithLateCopies) {
  auto spec = this->specs()[1];
  spec.lengths = {70, 0, 3, 33};
  const fla::cases::BackwardCase<TypeParam> call(spec);
  const auto expected = fla::cases::named_gradients(run_back(call.args));
  const auto expect_same = [&](const fla::RecurrenceGradients& again, const std::string& when) {
    const auto gradients = fla::cases::named_gradients(again);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const fla::Tensor& gradient = expected[i].second;
      if (!gradient.defined()) continue;
      const auto bytes = static_cast<std::size_t>(gradient.numel()) * size_of(gradient.dtype());
      EXPECT_EQ(std::memcmp(gradient.data(), gradients[i].second.data(), bytes), 0)
          << expected[i].first << when;
    }
  };
  for (const std::int64_t window : {1, 64, 96}) expect_same(run_back(call.args, window), " in windows");
  fla::emulation::block::set_schedule({.order = Schedule::Order::backwards, .late_copies = true});
  expect_same(run_back(call.args), " backwards");
  for (const auto order :
       {Schedule::Order::rotating, Schedule::Order::first_warp_first, Schedule::Order::last_warp_first}) {
    fla::emulation::block::set_schedule({.order = order});
    expect_same(run_back(call.args), " in order " + std::to_string(static_cast<int>(order)));
  }
}

TYPED_TEST(EmulatedRecurrence, ValueGradientsHaveTheSameBitsAlone) {
  const fla::cases::BackwardCase<TypeParam> call(this->specs()[0]);
  const fla::RecurrenceGradients all = run_back(call.args);
  auto args = call.args;
  const fla::Tensor dv = fla::Tensor::empty(args.v.shape(), args.v.dtype());
  args.dv = dv;
  (void)run_back(args);
  EXPECT_EQ(std::memcmp(all.dv.data(), dv.data(), static_cast<std::size_t>(dv.numel()) * size_of(dv.dtype())),
            0);
}

}  // namespace
