#include "tests/emulation/flash_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/flash_kda/route.h"
#include "fla/core/half.h"

namespace fla::emulation {
namespace {

using cases::DataKind;

/// bf16, everything in the kernel: norms, the gate with a lower bound, the sigmoid of beta.
Forward inside(std::int64_t T) {
  Forward forward;
  forward.spec = {.T = T, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16};
  KdaArgs& options = forward.spec.options;
  options.output_final_state = true;
  options.use_gate_in_kernel = options.use_qk_l2norm_in_kernel = options.use_beta_sigmoid_in_kernel = true;
  options.lower_bound = -5.0f;
  return forward;
}
/// f16 with f32 gates, all of it given.
Forward outside(std::int64_t T, DataKind data) {
  Forward forward;
  forward.spec = {
      .T = T, .H = 1, .K = 128, .V = 128, .dtype = DType::f16, .gate_dtype = DType::f32, .data = data};
  return forward;
}
Forward softplus(std::int64_t T, DataKind data) {
  Forward forward = inside(T);
  forward.spec.options.lower_bound.reset();
  forward.spec.data = data;
  return forward;
}
Forward packed(std::vector<std::int64_t> lengths) {
  Forward forward = inside(0);
  forward.spec.lengths = std::move(lengths);
  forward.beyond = 9;
  return forward;
}
/// The additive rule, all of it given.
Forward additive(std::int64_t T, DataKind data, DType dtype = DType::bf16) {
  Forward forward = outside(T, data);
  forward.spec.dtype = dtype;
  forward.rule = Rule::additive;
  return forward;
}
Forward additive_packed(std::vector<std::int64_t> lengths) {
  Forward forward = additive(0, DataKind::mixed);
  forward.spec.lengths = std::move(lengths);
  forward.beyond = 9;
  return forward;
}
Forward with(Forward forward, const std::function<void(Forward&)>& change) {
  change(forward);
  return forward;
}

struct Case {
  const char* name;
  Forward forward;
  double o = 3.5e-3, state = 1e-3;
  friend void PrintTo(const Case& c, std::ostream* to) { *to << c.name; }
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases{
      {"FullChunks", inside(128)},
      {"ATail", inside(130)},
      {"OneToken", inside(1)},
      {"TwoBatches", with(inside(70), [](Forward& f) { f.spec.B = 2; })},
      {"GroupedValues", with(inside(66),
                             [](Forward& f) {
                               f.spec.H = 2;
                               f.spec.HV = 4;
                             })},
      {"SmallHeads", with(packed({70, 0, 130}),
                          [](Forward& f) {
                            f.spec.HV = 2;
                            f.spec.K = f.spec.V = 64;
                          })},
      {"SmallKeys", with(softplus(130, DataKind::mixed), [](Forward& f) { f.spec.K = 64; })},
      {"SmallKeysFromF32", with(outside(70, DataKind::resets),
                                [](Forward& f) {
                                  f.spec.K = 64;
                                  f.spec.options.state_v_first = true;
                                })},
      {"SmallValues", with(inside(130),
                           [](Forward& f) {
                             f.spec.V = 64;
                             f.spec.B = 2;
                           })},
      {"SmallHeadsInSegments", with(softplus(250, DataKind::slow),
                                    [](Forward& f) {
                                      f.segments = 3;
                                      f.spec.K = f.spec.V = 64;
                                    })},
      {"SlowSmallHeadsWithNegativeEigenvalues", with(softplus(500, DataKind::slow),
                                                     [](Forward& f) {
                                                       f.spec.K = f.spec.V = 64;
                                                       f.spec.options.allow_neg_eigval = true;
                                                     })},
      {"GatesAtTheBound", with(inside(128), [](Forward& f) { f.spec.data = DataKind::bound; })},
      {"SlowGatesFromF32", outside(192, DataKind::slow)},
      {"SlowSoftplus", softplus(192, DataKind::slow)},
      {"RepeatedKeys", outside(192, DataKind::repeated_keys), 5e-3, 5e-3},
      {"HardResets", outside(130, DataKind::resets)},
      {"StrongSoftplus", softplus(70, DataKind::strong)},
      {"MixedSoftplus", softplus(130, DataKind::mixed)},
      {"FusedRows", with(inside(100),
                         [](Forward& f) {
                           f.fused = true;
                           f.spec.H = 2;
                         })},
      {"NegativeEigenvalues", with(inside(100), [](Forward& f) { f.spec.options.allow_neg_eigval = true; })},
      {"ValuesFirst", with(inside(65), [](Forward& f) { f.spec.options.state_v_first = true; })},
      {"NoStates", with(inside(65),
                        [](Forward& f) {
                          f.spec.initial_state = false;
                          f.spec.options.output_final_state = false;
                        })},
      {"InPlace", with(inside(100), [](Forward& f) { f.in_place = true; })},
      {"StatesThatTmaCannotBring", with(packed({70, 0, 130}),
                                        [](Forward& f) {
                                          f.spec.HV = 2;
                                          f.crooked_states = true;
                                        })},
      {"PackedSequences", with(packed({70, 0, 130, 1, 64}), [](Forward& f) { f.spec.HV = 2; })},
      {"PackedResets", with(packed({30, 65}),
                            [](Forward& f) {
                              f.spec.data = DataKind::resets;
                              f.spec.options.lower_bound.reset();
                            })},
      {"EmptySequences", with(packed({0, 0}), [](Forward& f) { f.beyond = 0; })},
      {"EmptySequencesInARow", with(packed({0, 70, 0, 0, 0, 64, 0}),
                                    [](Forward& f) {
                                      f.streams = 1;
                                      f.depth = 3;
                                    })},
      {"ShortIndices", with(packed({64, 20}), [](Forward& f) { f.spec.index_dtype = DType::i32; })},
      {"Pool", with(packed({64, 30, 10, 64, 5, 80}),
                    [](Forward& f) {
                      f.spec.pool = 9;
                      f.spec.write_indices = true;
                    })},
      {"TwoSegments", with(softplus(250, DataKind::slow), [](Forward& f) { f.segments = 2; })},
      {"FourSegments", with(softplus(500, DataKind::slow),
                            [](Forward& f) {
                              f.segments = 4;
                              f.spec.options.state_v_first = true;
                            })},
      {"PackedSegments", with(packed({300, 20, 130}),
                              [](Forward& f) {
                                f.segments = 3;
                                f.spec.data = DataKind::slow;
                              })},
      {"SegmentsThatForget", with(inside(500),
                                  [](Forward& f) {
                                    f.segments = 4;
                                    f.spec.H = 2;
                                  })},
      {"SmallHeadsThatForget", with(inside(260),
                                    [](Forward& f) {
                                      f.segments = 2;
                                      f.spec.K = f.spec.V = 64;
                                    })},
      {"AtOnce", with(inside(328),
                      [](Forward& f) {
                        f.streams = 1;
                        f.depth = 3;
                      })},
      {"AtOnceInRounds", with(inside(200),
                              [](Forward& f) {
                                f.spec.H = 3;
                                f.streams = 2;
                                f.depth = 4;
                              })},
      {"AtOnceInPlace", with(inside(140),
                             [](Forward& f) {
                               f.spec.H = 3;
                               f.spec.options.state_v_first = true;
                               f.in_place = true;
                               f.streams = 2;
                               f.depth = 3;
                             })},
      {"AtOnceInAPool", with(packed({64, 30, 0, 190, 5, 80}),
                             [](Forward& f) {
                               f.spec.pool = 9;
                               f.spec.write_indices = true;
                               f.streams = 2;
                               f.depth = 3;
                             })},
      {"AtOnceWithStatesThatTmaCannotBring", with(packed({64, 0, 100}),
                                                  [](Forward& f) {
                                                    f.spec.options.state_v_first = true;
                                                    f.crooked_states = true;
                                                    f.streams = 1;
                                                    f.depth = 3;
                                                  })},
      {"AtOncePacked", with(packed({70, 0, 130, 1, 64}),
                            [](Forward& f) {
                              f.spec.HV = 2;
                              f.streams = 3;
                              f.depth = 4;
                              f.prep_blocks = 2;
                            })},
      {"Split", inside(130)},
      {"SplitAtOnce", with(packed({64, 30, 0, 190, 5, 80}),
                           [](Forward& f) {
                             f.spec.pool = 9;
                             f.spec.write_indices = true;
                             f.streams = 2;
                             f.depth = 3;
                             f.prep_blocks = 2;
                           })},
      {"SplitInPlace", with(inside(140),
                            [](Forward& f) {
                              f.spec.H = 3;
                              f.spec.options.state_v_first = true;
                              f.in_place = true;
                              f.streams = 2;
                              f.depth = 3;
                            })},
      {"SplitSegments", with(softplus(300, DataKind::slow), [](Forward& f) { f.segments = 3; })},
      {"SplitWithStatesThatTmaCannotBring", with(packed({64, 0, 100}),
                                                 [](Forward& f) {
                                                   f.crooked_states = true;
                                                   f.streams = 1;
                                                   f.depth = 3;
                                                 })},
      {"ValuesOf192Channels", with(packed({70, 0, 64}), [](Forward& f) { f.spec.V = 192; })},
      {"SplitValuesOf192Channels", with(inside(130),
                                        [](Forward& f) {
                                          f.spec.V = 192;
                                          f.in_place = true;
                                          f.streams = 1;
                                          f.depth = 3;
                                        })},
      {"ValuesOf256Channels", with(softplus(250, DataKind::slow),
                                   [](Forward& f) {
                                     f.spec.K = 64, f.spec.V = 256;
                                     f.segments = 2;
                                     f.spec.options.state_v_first = true;
                                   })},
      {"Additive", additive(130, DataKind::random)},
      {"AdditiveBf16Gates", with(additive(128, DataKind::slow),
                                 [](Forward& f) {
                                   f.spec.gate_dtype = DType::bf16;
                                   f.spec.B = 2;
                                 })},
      {"AdditiveF16",
       with(additive(66, DataKind::mixed, DType::f16),
            [](Forward& f) {
              f.spec.H = 2;
              f.spec.HV = 4;
              f.fused = true;
            }),
       2e-3},
      {"AdditiveResets", additive(130, DataKind::resets)},
      {"AdditiveStrong",
       with(additive(70, DataKind::strong, DType::f16),
            [](Forward& f) { f.spec.options.state_v_first = true; }),
       2e-3},
      {"AdditiveUnscaledKeys", with(additive(200, DataKind::slow),
                                    [](Forward& f) {
                                      f.change = [](const KdaArgs& args) {
                                        for (const TensorView* x : {&args.q, &args.k})
                                          for (std::int64_t i = 0; i < x->numel(); ++i)
                                            x->as<bf16>()[i] =
                                                from_float<bf16>(11 * to_float(x->as<bf16>()[i]));
                                      };
                                    })},
      {"AdditiveSmallHeads", with(additive_packed({70, 0, 130}),
                                  [](Forward& f) {
                                    f.spec.HV = 2;
                                    f.spec.K = f.spec.V = 64;
                                  })},
      {"AdditivePool", with(additive_packed({64, 30, 0, 190, 5, 80}),
                            [](Forward& f) {
                              f.spec.pool = 9;
                              f.spec.write_indices = true;
                            })},
      {"AdditiveAtOnce", with(additive_packed({70, 0, 330, 1, 64}),
                              [](Forward& f) {
                                f.spec.HV = 2;
                                f.streams = 2;
                                f.depth = 3;
                                f.prep_blocks = 2;
                              })},
      {"AdditiveAtOnceInPlace", with(additive(330, DataKind::slow),
                                     [](Forward& f) {
                                       f.spec.H = 3;
                                       f.in_place = true;
                                       f.streams = 2;
                                       f.depth = 4;
                                     })},
      {"SplitAdditive", with(additive_packed({70, 0, 330, 1, 64}),
                             [](Forward& f) {
                               f.spec.options.state_v_first = true;
                               f.streams = 2;
                               f.depth = 3;
                             })},
      {"AdditiveTwoSegments", with(additive(250, DataKind::slow), [](Forward& f) { f.segments = 2; })},
      {"AdditiveFourSegments", with(additive(500, DataKind::slow),
                                    [](Forward& f) {
                                      f.segments = 4;
                                      f.spec.options.state_v_first = true;
                                    })},
      {"AdditivePackedSegments", with(additive_packed({300, 20, 130}), [](Forward& f) { f.segments = 3; })},
      {"AdditiveSegmentsThatForget", with(additive(500, DataKind::random),
                                          [](Forward& f) {
                                            f.segments = 4;
                                            f.spec.H = 2;
                                          })},
      {"AdditiveGateAToken", with(additive(200, DataKind::slow),
                                  [](Forward& f) {
                                    f.gates = GateKind::token;
                                    f.spec.B = 2;
                                  })},
      {"AdditiveResetsOfTokens", with(additive_packed({70, 0, 130, 1}),
                                      [](Forward& f) {
                                        f.gates = GateKind::token;
                                        f.spec.data = DataKind::resets;
                                        f.streams = 1;
                                        f.depth = 3;
                                      })},
      {"AdditiveGateAHead", with(additive(250, DataKind::slow),
                                 [](Forward& f) {
                                   f.gates = GateKind::head;
                                   f.spec.H = 3;
                                   f.segments = 2;
                                 })},
      {"AdditiveWithoutGates",
       with(additive(130, DataKind::slow, DType::f16), [](Forward& f) { f.gates = GateKind::none; }), 2e-3},
  };
  return cases;
}

/// Cases of this name have two CTAs a chain.
Forward forward_of(const Case& c) {
  return with(c.forward, [&](Forward& f) { f.split = std::string_view(c.name).starts_with("Split"); });
}

class FlashKdaOnTheCpu : public testing::TestWithParam<Case> {};

/// Against the recurrence in float64, with nothing for the detector to find.
TEST_P(FlashKdaOnTheCpu, IsRight) {
  const Case& c = GetParam();
  const ForwardResult result = run(forward_of(c));
  EXPECT_EQ(text_of(result.findings), "");
  EXPECT_LE(result.errors.o, c.o);
  EXPECT_LE(result.errors.final_state, c.state);
  EXPECT_TRUE(result.is_clean);
}
INSTANTIATE_TEST_SUITE_P(Cases, FlashKdaOnTheCpu, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

/// All SMs for one kind of work: the other kind gets what is left.
TEST(FlashKdaOnTheCpu, PlaysEveryPartHoweverSmsAreNumbered) {
  const Forward forward = with(packed({130, 64, 7}), [](Forward& f) {
    f.streams = 2;
    f.depth = 3;
    f.prep_blocks = 2;
  });
  const ForwardResult first = run(forward);
  EXPECT_EQ(text_of(first.findings), "");
  for (const Options& numbers :
       {Options{.first_processor = 1000}, Options{.processors_apart = 0}, Options{.first_processor = 1}}) {
    const ForwardResult result = run(forward, numbers);
    EXPECT_EQ(text_of(result.findings), "");
    EXPECT_EQ(result.o, first.o);
    EXPECT_EQ(result.final_state, first.final_state);
  }
}

/// Another order of threads, more CTAs that prepare, packets passed on instead of kept.
TEST(FlashKdaOnTheCpu, HasTheSameBitsOnEveryRoute) {
  const Forward kept = with(packed({130, 64, 7}), [](Forward& f) { f.beyond = 3; });
  const ForwardResult first = run(kept);
  EXPECT_EQ(text_of(first.findings), "");
  Forward more = kept;
  more.prep_blocks = 2;
  Forward passed = kept;
  passed.streams = 2;
  passed.depth = 3;
  Forward split = passed;
  split.split = true;
  for (const auto& [forward, seed] : {std::pair{kept, 5}, std::pair{more, 0}, std::pair{passed, 0},
                                      std::pair{passed, 6}, std::pair{split, 0}}) {
    const ForwardResult other = run(forward, {.seed = static_cast<std::uint64_t>(seed)});
    EXPECT_EQ(text_of(other.findings), "");
    EXPECT_TRUE(other.o == first.o);
    EXPECT_TRUE(other.final_state == first.final_state);
  }
}

/// Pairs of gates that have one number per token are scaled behind their products, which have exact factors:
/// the error is no larger than with that gate in every channel.
TEST(FlashKdaOnTheCpu, IsNoLessRightForOneGatePerTokenThanForThatGateInEveryChannel) {
  const auto grouped = [](Forward& f) { f.spec.H = 1, f.spec.HV = 2; };
  for (Forward forward : {
           inside(130),
           with(packed({70, 0, 130, 1}), grouped),
           with(packed({64, 100}), [](Forward& f) { f.streams = 2, f.depth = 3, f.prep_blocks = 2; }),
           with(softplus(200, DataKind::slow),
                [](Forward& f) { f.segments = 3, f.spec.K = f.spec.V = 64, f.fused = true; }),
           outside(130, DataKind::mixed),
           outside(100, DataKind::resets),
       }) {
    forward.gates = GateKind::token;
    const ForwardResult token = run(forward);
    EXPECT_EQ(text_of(token.findings), "");
    EXPECT_LE(token.errors.o, 3.5e-3);
    EXPECT_LE(token.errors.final_state, 1e-3);
    EXPECT_TRUE(token.is_clean);
    forward.gates = GateKind::channel;
    forward.change = [](const KdaArgs& args) {
      for (const TensorView* x : {&args.g, &args.dt_bias}) repeat_first_channel(*x, args.g.size(3));
    };
    const ForwardResult channels = run(forward);
    EXPECT_EQ(text_of(channels.findings), "");
    EXPECT_LE(token.errors.o, 1.02 * channels.errors.o);
    EXPECT_LE(token.errors.final_state, 1.02 * channels.errors.final_state);
  }
}

TEST(FlashKdaOnTheCpu, HasTheBitsOfGatesOfZeroWithoutGates) {
  for (Forward forward : {outside(130, DataKind::random), with(outside(0, DataKind::random), [](Forward& f) {
                            f.spec.lengths = {70, 0, 130, 1}, f.streams = 2, f.depth = 3;
                          })}) {
    forward.gates = GateKind::none;
    const ForwardResult none = run(forward);
    EXPECT_EQ(text_of(none.findings), "");
    EXPECT_LE(none.errors.o, 3.5e-3);
    EXPECT_LE(none.errors.final_state, 1e-3);
    EXPECT_TRUE(none.is_clean);
    forward.gates = GateKind::token;
    forward.change = [](const KdaArgs& args) { std::fill_n(args.g.as<float>(), args.g.numel(), 0.0f); };
    const ForwardResult zeros = run(forward);
    EXPECT_TRUE(none.o == zeros.o);
    EXPECT_TRUE(none.final_state == zeros.final_state);
  }
}

/// Outputs in f16 show more than those in bf16.
TEST(FlashKdaOnTheCpu, KeepsF16InputsWithinTheirTolerance) {
  for (const std::int64_t size : {64, 128}) {
    for (const DataKind data :
         {DataKind::random, DataKind::bound, DataKind::slow, DataKind::mixed, DataKind::strong}) {
      const ForwardResult result = run(with(outside(100, data), [&](Forward& f) {
        f.spec.H = 2, f.spec.K = f.spec.V = size;
        f.spec.options.scale = 0.25f;
      }));
      EXPECT_LE(result.errors.o, 2e-3);
    }
  }
}

/// Gates of one decay for all tokens and channels of a head, given as they are.
Forward with_decays(std::vector<float> of_heads, std::int32_t segments) {
  Forward forward = outside(64 * 4 * segments, DataKind::random);
  forward.spec.H = static_cast<std::int64_t>(of_heads.size());
  forward.segments = segments;
  forward.change = [of_heads](const KdaArgs& args) {
    for (std::int64_t i = 0; i < args.g.numel(); ++i)
      args.g.as<float>()[i] = of_heads[static_cast<std::size_t>(i / args.g.size(3)) % of_heads.size()];
  };
  return forward;
}

TEST(FlashKdaOnTheCpu, ForgetsWhereNextToNothingIsLeftAndNowhereElse) {
  // Of a state a chunk leaves 2^-46, 2^-23, 2^-14 and 2^-5, by the bound up to 2^6 times as much: one chunk
  // does, two do, four do, none.
  const ForwardResult result = run(with_decays({-0.5f, -0.25f, -0.15f, -0.05f}, 3));
  ASSERT_EQ(text_of(result.findings), "");
  EXPECT_EQ(result.forgotten, (std::vector<bool>{true, true, true, true, true, true, false, false}));
  EXPECT_LE(result.errors.o, 3.5e-3);
  EXPECT_LE(result.errors.final_state, 1e-3);
}

TEST(FlashKdaOnTheCpu, ForgetsNothingInSegmentsTooShortForALook) {
  const ForwardResult result =
      run(with(with_decays({-0.5f}, 3), [](Forward& f) { f.spec.T = 320, f.looks = false; }));
  ASSERT_EQ(text_of(result.findings), "");
  EXPECT_EQ(result.forgotten, (std::vector<bool>{false, false}));
  EXPECT_LE(result.errors.o, 3.5e-3);
  EXPECT_LE(result.errors.final_state, 1e-3);
}

TEST(FlashKdaOnTheCpu, HasTheSameBitsForASequenceAloneAndInABatch) {
  Forward batch = packed({70, 100, 64});
  batch.beyond = 0;
  const ForwardResult together = run(batch);
  batch.cu_seqlens = {70, 70, 170, 170};  // the others are empty
  const ForwardResult alone = run(batch);
  EXPECT_EQ(text_of(alone.findings), "");
  const auto equal = [](const auto& x, const auto& y, std::ptrdiff_t begin, std::ptrdiff_t end) {
    return std::equal(x.begin() + begin, x.begin() + end, y.begin() + begin);
  };
  EXPECT_TRUE(equal(alone.o, together.o, 70 * 128, 170 * 128));
  EXPECT_TRUE(equal(alone.final_state, together.final_state, 128 * 128, 2 * 128 * 128));
}

/// On the device indices are not checked before the kernels run, which must stay inside their tensors with
/// any.
TEST(FlashKdaOnTheCpu, StaysInsideItsTensorsWhateverCuSeqlensHold) {
  Forward forward = packed({64, 30, 40, 20, 6});
  const std::int64_t T = 160;
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& contents :
       std::vector<std::vector<std::int64_t>>{{0, T, 0, T, 5, T},
                                              {T, 90, 60, 30, 10, 0},
                                              {-huge, -1, 7, huge, 3, huge},
                                              {40, 40, 40, 40, 40, 40}}) {
    forward.cu_seqlens = contents;
    for (const std::int32_t streams : {0, 2}) {
      forward.streams = streams;
      forward.depth = streams > 0 ? 4 : 0;
      EXPECT_EQ(text_of(run(forward).findings), "")
          << "from " << contents[0] << ", " << contents[1] << ", streams " << streams;
    }
  }
}

TEST(FlashKdaOnTheCpu, StaysInsideItsPoolWhateverTheIndicesHold) {
  Forward forward = packed({20, 10, 5, 7});
  forward.spec.pool = 5;
  forward.spec.write_indices = true;
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  forward.state_indices = {5, -1, huge, 2};
  forward.state_write_indices = {1, 2, -huge, 5};
  EXPECT_EQ(text_of(run(forward).findings), "");
}

/// The plan kernel alone, for more sequences and rounds than a whole pass is run with: its list against
/// params.h taken word by word.
struct Packing {
  std::vector<std::int32_t> lengths;
  int HV;
  std::int32_t streams;  ///< 0: packets are kept
  std::uint32_t blocks;
};
std::vector<std::int32_t> many_lengths(int count) {
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(i % 5 == 3 ? 0 : i * 37 % 150 + (i % 97 == 50 ? 700 : 0));
  return lengths;
}
void check_plan(const Packing& packing) {
  using flash_kda::kChunk;
  const auto N = static_cast<std::int32_t>(packing.lengths.size());
  Device device;
  const auto starts = device.buffer<std::int32_t>("cu_seqlens", packing.lengths.size() + 1);
  starts[0] = 5;
  std::partial_sum(packing.lengths.begin(), packing.lengths.end(), starts.begin() + 1);
  for (std::int32_t& start : starts.subspan(1)) start += starts[0];
  RecurrenceCall call;
  call.T = starts.back() + 3;
  call.N = N;
  call.HV = packing.HV;
  call.cu_seqlens.data = starts.data();
  const std::int32_t items = flash_kda::items_of(call), streams = packing.streams ? packing.streams : items;
  const flash_kda::Route route{.streams = streams, .depth = packing.streams > 0 ? 2 : 0, .prep_blocks = 1};
  const auto memory = device.buffer<std::byte>(
      "workspace", (flash_kda::workspace_of(call, route, nullptr).bytes + 255) / 256 * 256);
  const flash_kda::Workspace workspace = flash_kda::workspace_of(call, route, memory.data());
  const Kernel kernel{.name = "plan",
                      .blocks = packing.blocks,
                      .threads = flash_kda::kPlanThreads,
                      .shared_bytes = flash_kda::kPlanShared,
                      .body = [&](std::uint32_t smem) { flash_kda::plan(workspace.plan, smem); }};
  ASSERT_EQ(text_of(device.run({kernel})), "");

  const flash_kda::Plan& plan = workspace.schedule.plan;
  const auto chunks_of = [&](std::int32_t n) { return (packing.lengths[n] + kChunk - 1) / kChunk; };
  std::vector<std::int32_t> order(N);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::int32_t a, std::int32_t b) { return chunks_of(a) > chunks_of(b); });
  for (std::int32_t rank = 0; rank < N; ++rank) {
    const flash_kda::Sequence& found = plan.sequences[rank];
    const std::int32_t n = order[rank];
    ASSERT_EQ((std::array{found.n, found.begin, found.tokens, found.chunks}),
              (std::array{n, starts[n], packing.lengths[n], chunks_of(n)}))
        << "rank " << rank;
  }
  std::int32_t task = 0;
  std::vector<std::int32_t> base(streams, 0);  // chunks of a stream's earlier rounds
  for (std::int32_t first = 0; first < items; first += streams) {
    const std::int32_t end = std::min(first + streams, items);
    for (std::int32_t chunk = 0; chunk < chunks_of(order[first / packing.HV]); ++chunk) {
      if (plan.slices) {
        ASSERT_EQ(plan.slices[chunk], task) << "chunk " << chunk;
      }
      for (std::int32_t item = first; item < end && chunk < chunks_of(order[item / packing.HV]); ++item) {
        const std::int32_t n = order[item / packing.HV], token = chunk * kChunk, stream = item - first;
        const flash_kda::PlannedTask& found = plan.list[task];
        ASSERT_EQ(
            (std::array{found.head, found.token, found.stream_rows, found.number}),
            (std::array{item % packing.HV, starts[n] + token,
                        128 * stream + std::min(packing.lengths[n] - token, kChunk), base[stream] + chunk}))
            << "task " << task;
        ++task;
      }
    }
    for (std::int32_t item = first; item < end; ++item)
      base[item - first] += chunks_of(order[item / packing.HV]);
  }
  EXPECT_EQ(*plan.tasks, task);
  if (!route.depth) return;
  for (std::int32_t i = 0; i < streams * route.depth; ++i)
    ASSERT_EQ(workspace.schedule.ready[i * flash_kda::kReadyApart], 0u) << i;
  for (std::int32_t i = 0; i < streams; ++i)
    ASSERT_EQ(workspace.schedule.taken[i * flash_kda::kTakenApart], 0u) << i;
  EXPECT_EQ(*workspace.schedule.claim, workspace.plan.claimed);
}

TEST(FlashKdaPlan, ListsEveryTaskInItsPlace) {
  const std::vector<std::int32_t> equal(8, 1024), mixed{1300, 547, 2048, 963, 271, 3063};
  for (const Packing& packing :
       {Packing{equal, 96, 43, 25}, Packing{mixed, 96, 43, 3}, Packing{mixed, 3, 11, 1},
        Packing{many_lengths(23), 2, 0, 2}, Packing{many_lengths(256), 5, 5, 2},
        Packing{many_lengths(700), 3, 2, 2}, Packing{many_lengths(603), 3, 100, 1}})
    check_plan(packing);
}

}  // namespace
}  // namespace fla::emulation
