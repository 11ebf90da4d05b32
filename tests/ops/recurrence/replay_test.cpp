#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/conformance/ring_walk.h"

/// Steps over rings, of every op of the family.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla::cases::DataKind;
using fla::conformance::RingWalk;
using fla::conformance::WalkSpec;

template <class Args>
class Replay : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;
  using Functions = fla::cases::Functions<Args>;

  static Spec spec() { return {.B = 3, .T = 40, .H = 1, .HV = 2, .K = 12, .V = 20}; }

  static void walk(const Spec& calls, const WalkSpec& walk, double tolerance = 2e-5,
                   double state_tolerance = 2e-5) {
    SCOPED_TRACE("L=" + std::to_string(walk.L) + " T=" + std::to_string(walk.T) + " " +
                 std::string(fla::cases::name_of(calls.data)));
    EXPECT_EQ(RingWalk<Args>(calls, walk).run(Functions::replay, Functions::fold, tolerance, state_tolerance),
              "");
    EXPECT_EQ(RingWalk<Args>(calls, walk)
                  .run(Functions::original_replay, Functions::original_fold, tolerance, state_tolerance),
              "");
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(Replay, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(Replay, AgreesWithPlainSteps) {
  for (const std::int64_t L : {8, 11, 32}) {
    for (const std::int64_t T : {1, 3, 4}) this->walk(this->spec(), {.L = L, .T = T, .steps = 2 * L});
  }
  this->walk(this->spec(), {.L = 32, .T = 16, .steps = 12});
}

TYPED_TEST(Replay, TakesAnyGate) {
  for (const DataKind data : {DataKind::slow, DataKind::strong, DataKind::resets, DataKind::repeated_keys}) {
    auto calls = this->spec();
    calls.data = data;
    this->walk(calls, {.L = 16, .T = 2});
  }
}

TYPED_TEST(Replay, TakesAnyOption) {
  for (const auto& calls : fla::conformance::specs_with_options(this->spec()))
    this->walk(calls, {.L = 9, .T = 2});
}

TYPED_TEST(Replay, TakesAnyTypesAndStrides) {
  auto calls = this->spec();
  this->walk(calls, {.L = 8, .T = 2, .strided = true, .indices = DType::i32});
  calls.dtype = calls.gate_dtype = DType::f16;
  this->walk(calls, {.L = 8, .T = 2}, 2e-3);
  calls.dtype = calls.gate_dtype = DType::bf16;
  this->walk(calls, {.L = 8, .T = 2}, 8e-3);
  calls.state_dtype = DType::bf16;
  this->walk(calls, {.L = 16, .T = 1}, 1.6e-2, 1.6e-2);
}

TYPED_TEST(Replay, ASequenceHasTheSameBitsInAnyBatch) {
  using Step = typename TypeParam::Replay;
  std::vector<std::byte> expected, found;
  const auto keeping = [](std::vector<std::byte>& bytes, auto&& run) {
    return [&bytes, run](const Step& args) {
      fla::ReplayResult result = run(args);
      const std::vector<std::byte> now = fla::conformance::bytes_of(result.o);
      bytes.insert(bytes.end(), now.begin(), now.end());
      return result;
    };
  };
  const auto alone = [](const Step& all) {
    fla::ReplayResult result{Tensor::empty(all.v.shape(), all.v.dtype())};
    for (std::int64_t n = 0; n < all.q.size(0); ++n) {
      Step one = all;
      for (const fla::Argument& argument : Step::arguments()) {
        if (!argument.is_tensor() || !argument.given(&all)) continue;
        const fla::DimRule first = argument.shape.first.dims[0];
        if (first.axis != fla::Axis::B && first.axis != fla::Axis::N) continue;
        TensorView& tensor = argument.tensor(static_cast<void*>(&one));
        tensor = tensor.slice(0, n, 1);
      }
      one.out = result.o.view().slice(0, n, 1);
      TestFixture::Functions::replay(one);
    }
    return result;
  };
  for (const std::int64_t T : {1, 3}) {
    const WalkSpec walk{.L = 8, .T = T};
    EXPECT_EQ(
        RingWalk<TypeParam>(this->spec(), walk)
            .run(keeping(expected, TestFixture::Functions::replay), TestFixture::Functions::fold, 2e-5, 2e-5),
        "");
    EXPECT_EQ(RingWalk<TypeParam>(this->spec(), walk)
                  .run(keeping(found, alone), TestFixture::Functions::fold, 2e-5, 2e-5),
              "");
  }
  EXPECT_EQ(expected, found);
}

TEST(RingCursor, MovesByWhatIsAccepted) {
  const auto next = [](fla::RingCursor cursor, std::int64_t T, std::int64_t accepted) {
    const fla::RingCursor moved = fla::next_cursor(cursor, T, accepted, 8);
    return std::array{moved.begin, moved.end};
  };
  EXPECT_EQ(next({5, 5}, 2, 1), (std::array<std::int64_t, 2>{5, 6}));
  EXPECT_EQ(next({5, 9}, 2, 2), (std::array<std::int64_t, 2>{5, 11}));    // 4 and 2, room for 2 more
  EXPECT_EQ(next({5, 10}, 2, 0), (std::array<std::int64_t, 2>{10, 10}));  // 5 and 2: folded
  EXPECT_EQ(next({0, 7}, 1, 1), (std::array<std::int64_t, 2>{7, 8}));
}

// ---- bad input

struct KdaRing {
  std::vector<std::int64_t> slots{2, 0}, begin{3, 0}, end{5, 4};
  Tensor q = Tensor::zeros({2, 2, 1, 4}, DType::f32), v = Tensor::zeros({2, 2, 2, 6}, DType::f32),
         g = Tensor::zeros({2, 2, 2, 4}, DType::f32), beta = Tensor::zeros({2, 2, 2}, DType::f32),
         state = Tensor::zeros({3, 2, 4, 6}, DType::f32), ring_k = Tensor::zeros({3, 8, 1, 4}, DType::f32),
         ring_u = Tensor::zeros({3, 8, 2, 6}, DType::f32), ring_g = Tensor::zeros({3, 8, 2, 4}, DType::f32);
  fla::KdaReplayArgs step{.q = q,
                          .k = q,
                          .v = v,
                          .g = g,
                          .beta = beta,
                          .state = state,
                          .state_indices = index(slots),
                          .ring_begin = index(begin),
                          .ring_end = index(end),
                          .ring_k = ring_k,
                          .ring_u = ring_u,
                          .ring_g = ring_g};
  fla::KdaFoldArgs fold{.state = state,
                        .state_indices = index(slots),
                        .ring_begin = index(begin),
                        .ring_end = index(end),
                        .ring_k = ring_k,
                        .ring_u = ring_u,
                        .ring_g = ring_g};

  static TensorView index(const std::vector<std::int64_t>& entries) {
    return {entries.data(), DType::i64, {static_cast<std::int64_t>(entries.size())}};
  }
};

template <class Args, class Result>
std::string refusal(Result (*run)(const Args&), const Args& args) {
  try {
    run(args);
    return "took it";
  } catch (const fla::InvalidArgument& error) {
    return error.what();
  }
}

/// Of the step and of the fold, in the same words.
std::string both_refuse(const KdaRing& call) {
  std::string words = refusal(&fla::replay_kda, call.step);
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), words);
  EXPECT_EQ(refusal(&fla::original::replay_kda, call.step), words);
  return words;
}

TEST(ReplayBadInput, IsTakenWhereItIsRight) {
  const KdaRing call;
  EXPECT_EQ(refusal(&fla::replay_kda, call.step), "took it");
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), "took it");
}

TEST(ReplayBadInput, CursorsAreChecked) {
  KdaRing call;
  call.begin[1] = -1;
  EXPECT_EQ(both_refuse(call), "kda: ring_begin: expected entries of at least 0, got ring_begin[1]=-1");
  call.slots[1] = -1;  // nobody looks at it
  EXPECT_EQ(both_refuse(call), "took it");
  call.slots[1] = 0, call.begin[1] = 5;
  EXPECT_EQ(
      both_refuse(call),
      "kda: ring_end: expected entries of at least ring_begin's, got ring_end[1]=4 and ring_begin[1]=5");
  call.begin[1] = 0, call.end[1] = 7;
  EXPECT_EQ(
      refusal(&fla::replay_kda, call.step),
      "kda: ring_end: expected at most 6 tokens in a ring of L=8 before T=2 more, got ring_end[1]=7 and "
      "ring_begin[1]=0");
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), "took it");
  call.end[1] = 9;
  EXPECT_EQ(
      refusal(&fla::fold_kda, call.fold),
      "kda: ring_end: expected at most 8 tokens in a ring of L=8 before T=0 more, got ring_end[1]=9 and "
      "ring_begin[1]=0");
}

TEST(ReplayBadInput, SlotsAreChecked) {
  KdaRing call;
  call.slots[0] = 3;
  EXPECT_EQ(both_refuse(call), "kda: state_indices: expected entries below P=3, got state_indices[0]=3");
  call.slots[0] = 0;
  EXPECT_EQ(both_refuse(call),
            "kda: state_indices: expected slots that are written once, got state_indices[0]=0 and "
            "state_indices[1]=0");
  call.step.state_indices = call.fold.state_indices = {};
  EXPECT_EQ(refusal(&fla::replay_kda, call.step),
            "kda: state: expected shape [N=2, HV=2, K=4, V=6], got [3, 2, 4, 6]");
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold),
            "kda: ring_k: expected shape [N=2, L=8, H=1, K=4], got [3, 8, 1, 4]");
}

TEST(ReplayBadInput, RingsAreChecked) {
  KdaRing call;
  const auto with = [&](const Tensor& ring_k, const Tensor& ring_u, const Tensor& ring_g) {
    call.step.ring_k = call.fold.ring_k = ring_k;
    call.step.ring_u = call.fold.ring_u = ring_u;
    call.step.ring_g = call.fold.ring_g = ring_g;
  };
  const auto ring = [](std::int64_t L, std::int64_t H, std::int64_t D, DType dtype = DType::f32) {
    return Tensor::zeros({3, L, H, D}, dtype);
  };
  for (const std::int64_t L : {7, 33}) {
    const Tensor k = ring(L, 1, 4), u = ring(L, 2, 6), g = ring(L, 2, 4);
    with(k, u, g);
    EXPECT_EQ(both_refuse(call), "kda: ring_k: expected rings of 8 to 32 tokens, got L=" + std::to_string(L));
  }
  const Tensor short_u = ring(9, 2, 6);
  with(call.ring_k, short_u, call.ring_g);
  EXPECT_EQ(refusal(&fla::replay_kda, call.step),
            "kda: ring_u: expected shape [P=3, L=8, HV=2, V=6], got [3, 9, 2, 6]");
  const Tensor half_u = ring(8, 2, 6, DType::bf16);
  with(call.ring_k, half_u, call.ring_g);
  EXPECT_EQ(both_refuse(call), "kda: ring_u: expected dtype f32, got bf16");
  const Tensor half_k = ring(8, 1, 4, DType::bf16), half_g = ring(8, 2, 4, DType::bf16);
  with(half_k, call.ring_u, call.ring_g);
  EXPECT_EQ(refusal(&fla::replay_kda, call.step), "kda: ring_k: expected dtype f32 like k, got bf16");
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), "took it");
  with(call.ring_k, call.ring_u, half_g);
  EXPECT_EQ(refusal(&fla::replay_kda, call.step), "kda: ring_g: expected dtype f32 like g, got bf16");
  with(call.ring_k, call.ring_u, call.ring_g);
  call.step.ring_k = {};
  EXPECT_EQ(refusal(&fla::replay_kda, call.step),
            "kda: ring_k: expected a tensor of shape [P=3, L, H=1, K=4], got none");
  call.step.ring_k = call.step.state = call.state;
  EXPECT_EQ(refusal(&fla::replay_kda, call.step),
            "kda: ring_k: expected shape [P=3, L=2, H=1, K=4], got [3, 2, 4, 6]");
}

TEST(ReplayBadInput, TokensAreChecked) {
  KdaRing call;
  for (const std::int64_t T : {0, 5}) {
    const Tensor q = Tensor::zeros({2, T, 1, 4}, DType::f32), v = Tensor::zeros({2, T, 2, 6}, DType::f32),
                 g = Tensor::zeros({2, T, 2, 4}, DType::f32), beta = Tensor::zeros({2, T, 2}, DType::f32);
    call.step.q = call.step.k = q, call.step.v = v, call.step.g = g, call.step.beta = beta;
    EXPECT_EQ(refusal(&fla::replay_kda, call.step),
              "kda: q: expected T from 1 to half of L=8, got T=" + std::to_string(T));
  }
  call = {};
  call.step.use_gate_in_kernel = call.fold.use_gate_in_kernel = true;
  EXPECT_EQ(
      both_refuse(call),
      "kda: A_log: expected a tensor of shape [HV] with use_gate_in_kernel and no lower_bound, got none");
}

TEST(ReplayBadInput, SizesOfAFoldAreThoseOfItsRings) {
  KdaRing call;
  const Tensor k = Tensor::zeros({3, 8, 1, 257}, DType::f32), g = Tensor::zeros({3, 8, 2, 257}, DType::f32),
               state = Tensor::zeros({3, 2, 257, 6}, DType::f32);
  call.fold.ring_k = k, call.fold.ring_g = g, call.fold.state = state;
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), "kda: ring_k: expected K from 1 to 256, got 257");
  call = {};
  const Tensor heads = Tensor::zeros({3, 8, 3, 4}, DType::f32);
  call.fold.ring_k = heads;
  EXPECT_EQ(refusal(&fla::fold_kda, call.fold), "kda: ring_u: expected HV to be a multiple of H=3, got HV=2");
}

TEST(ReplayBadInput, GatesOfHeadsHaveNoRing) {
  const KdaRing of;
  const Tensor g = Tensor::zeros({2, 2, 2}, DType::f32), gamma = Tensor::zeros({2}, DType::f32),
               ring_g = Tensor::zeros({3, 8, 2}, DType::f32);
  fla::SimpleGlaReplayArgs step{.q = of.q,
                                .k = of.q,
                                .v = of.v,
                                .g = g,
                                .state = of.state,
                                .state_indices = of.step.state_indices,
                                .ring_begin = of.step.ring_begin,
                                .ring_end = of.step.ring_end,
                                .ring_k = of.ring_k,
                                .ring_u = of.ring_u};
  EXPECT_EQ(refusal(&fla::replay_simple_gla, step),
            "simple_gla: ring_g: expected a tensor of shape [P, L, HV] with g, got none");
  step.ring_g = ring_g;
  EXPECT_EQ(refusal(&fla::replay_simple_gla, step), "took it");
  step.g = {}, step.g_gamma = gamma;
  EXPECT_EQ(refusal(&fla::replay_simple_gla, step),
            "simple_gla: ring_g: expected none with g_gamma, got both");
  step.ring_g = {};
  EXPECT_EQ(refusal(&fla::replay_simple_gla, step), "took it");
  fla::SimpleGlaFoldArgs fold{.state = of.state,
                              .state_indices = of.step.state_indices,
                              .ring_begin = of.step.ring_begin,
                              .ring_end = of.step.ring_end,
                              .ring_k = of.ring_k,
                              .ring_u = of.ring_u};
  EXPECT_EQ(refusal(&fla::fold_simple_gla, fold),
            "simple_gla: ring_g: expected a tensor of shape [P, L, HV], or g_gamma, got neither");
  fold.g_gamma = gamma;
  EXPECT_EQ(refusal(&fla::fold_simple_gla, fold), "took it");
}

}  // namespace
