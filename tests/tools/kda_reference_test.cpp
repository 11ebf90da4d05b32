#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/cases/accuracy.h"
#include "tools/cases/case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"

namespace fla::cases {
namespace {

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR)) {
    if (entry.path().filename().string().starts_with("kda")) files.push_back(entry.path().string());
  }
  return files;
}

// The golden files hold a float64 recurrence rounded to f32: that rounding is all that may be left.
TEST(Reference, AgreesWithEveryGoldenCase) {
  const std::vector<std::string> files = golden_files();
  EXPECT_GE(files.size(), 9u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const Case call = read_case(file);
    const Reference reference = reference_of(call.args_as<KdaArgs>());
    for (const auto& [name, expected] : call.expected) {
      EXPECT_LT(relative_error(expected, name == "o" ? reference.o : reference.final_state), 1e-7) << name;
    }
  }
}

TEST(Reference, DoesOneStepAsWrittenByHand) {
  const float q = 2, k = 3, v = 5, g = std::log(0.5f), beta = 0.25f, start = 8;
  const KdaArgs args{.q = TensorView(&q, DType::f32, {1, 1, 1, 1}),
                     .k = TensorView(&k, DType::f32, {1, 1, 1, 1}),
                     .v = TensorView(&v, DType::f32, {1, 1, 1, 1}),
                     .g = TensorView(&g, DType::f32, {1, 1, 1, 1}),
                     .beta = TensorView(&beta, DType::f32, {1, 1, 1}),
                     .scale = 10.0f,
                     .initial_state = TensorView(&start, DType::f32, {1, 1, 1, 1})};
  // S = 8 / 2 = 4; u = (5 - 3 * 4) / 4 = -1.75; S = 4 - 3 * 1.75 = -1.25; o = 10 * 2 * S.
  const Reference reference = reference_of(args);
  EXPECT_NEAR(reference.final_state.at(0), -1.25, 1e-6);
  EXPECT_NEAR(reference.o.at(0), -25, 1e-5);
}

TEST(Reference, IsTheSameForASequenceAloneAndPacked) {
  const KdaCase packed = make_kda_case({.K = 8, .V = 4, .lengths = {3, 0, 7}});
  const Reference all = reference_of(packed.args);
  const ReferenceHead alone = reference_head_of(packed.args, 2, 1);
  for (std::int64_t t = 0; t < 7; ++t) {
    for (std::int64_t v = 0; v < 4; ++v) {
      EXPECT_EQ(all.o.at(static_cast<std::size_t>(((3 + t) * 2 + 1) * 4 + v)),
                alone.o.at(static_cast<std::size_t>(t * 4 + v)));
    }
  }
}

TEST(Reference, HoldsTheStateOfAnEmptySequence) {
  const KdaCase packed = make_kda_case({.H = 1, .K = 4, .V = 4, .lengths = {0, 2}});
  const Reference reference = reference_of(packed.args);
  for (std::int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(reference.final_state.at(static_cast<std::size_t>(i)), element(packed.args.initial_state, i));
  }
}

TEST(Reference, DoesNotDependOnStridesOrTheStatesLayout) {
  KdaSpec spec{.T = 11, .K = 6, .V = 10};
  const Reference plain = reference_of(make_kda_case(spec).args);
  spec.fused_projection = true;
  EXPECT_EQ(reference_of(make_kda_case(spec).args).o, plain.o);

  KdaCase turned = make_kda_case(spec);
  const TensorView& state = turned.args.initial_state;
  turned.args.state_v_first = true;
  turned.args.initial_state = TensorView(
      state.data(), DType::f32, std::array<std::int64_t, 4>{1, 2, 10, 6},
      std::array<std::int64_t, 4>{state.stride(0), state.stride(1), state.stride(3), state.stride(2)});
  EXPECT_EQ(reference_of(turned.args).o, plain.o);
}

TEST(Reference, OfAPoolIsThatOfItsSequencesAlone) {
  const KdaCase made = make_kda_case(
      {.H = 1, .K = 4, .V = 3, .lengths = {2, 0, 5, 1, 3, 2, 2}, .pool = 20, .write_indices = true});
  const Reference all = reference_of(made.args);
  ASSERT_EQ(all.slots.size(), 7u);
  int skipped = 0;
  for (std::int64_t n = 0; n < 7; ++n) {
    const auto [read, write] = slots_of(made.args, n);
    const Sequence tokens = tokens_of(made.args, n);
    EXPECT_EQ(std::max<std::int64_t>(all.slots[static_cast<std::size_t>(n)], -1), write);  // any negative
    Reference one;
    if (read < 0) {
      ++skipped;
      one.o.assign(static_cast<std::size_t>(3 * (tokens.end - tokens.begin)), 0.0);
    } else {
      KdaArgs alone = made.args;
      for (TensorView* tensor : {&alone.q, &alone.k, &alone.v, &alone.g, &alone.beta})
        *tensor = tensor->slice(1, tokens.begin, tokens.end - tokens.begin);
      alone.initial_state = alone.initial_state.slice(0, read, 1);
      alone.cu_seqlens = alone.state_indices = alone.state_write_indices = alone.final_state = {};
      one = reference_of(alone);
      EXPECT_TRUE(one.slots.empty());
      for (std::size_t i = 0; i < 12; ++i)
        EXPECT_EQ(all.final_state.at(static_cast<std::size_t>(n) * 12 + i), one.final_state.at(i)) << n;
    }
    for (std::size_t i = 0; i < one.o.size(); ++i)
      EXPECT_EQ(all.o.at(static_cast<std::size_t>(3 * tokens.begin) + i), one.o.at(i)) << n;
  }
  EXPECT_GT(skipped, 0);
}

TEST(Reference, ErrorsOfAPoolAreThoseOfTheSlotsThatWereWritten) {
  const KdaCase made = make_kda_case({.B = 3, .T = 2, .H = 1, .K = 4, .V = 3, .pool = 5});
  KdaResult result = original::chunk_kda(made.args);
  const Reference reference = reference_of(made.args);
  EXPECT_LT(errors_of(result, reference).worst(), 2e-5);
  std::int64_t written = -1;
  for (std::int64_t slot = 0; slot < 5; ++slot) {
    if (std::ranges::count(reference.slots, slot) > 0) {
      written = slot;
    } else {
      result.final_state.as<float>()[slot * 12] = std::nanf("");
    }
  }
  EXPECT_LT(errors_of(result, reference).worst(), 2e-5) << "nobody's slots may hold anything";
  ASSERT_GE(written, 0);
  result.final_state.as<float>()[written * 12] += 1;
  EXPECT_GT(errors_of(result, reference).final_state, 1e-2);
}

}  // namespace
}  // namespace fla::cases
