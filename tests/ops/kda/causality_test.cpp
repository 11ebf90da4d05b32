#include "tests/ops/kda/causality.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/ops/kda/every_way.h"

namespace {

TEST(KdaCausality, NoTokenChangesWhatIsBeforeItOrBesideIt) {
  for (const auto& [name, run] : fla_test::kEveryWay) fla_test::expect_outputs_before(name, run);
}

TEST(KdaCausality, WhatIsNotFiniteGoesNoFurtherThanInTheRecurrence) {
  using fla::cases::DataKind;
  for (const auto& [data, dtype] : {std::pair{DataKind::slow, fla::DType::f32},
                                    {DataKind::resets, fla::DType::f32},
                                    {DataKind::slow, fla::DType::bf16}}) {
    const fla::cases::KdaCase call =
        fla::cases::make_kda_case({.B = 2, .T = 20, .H = 2, .K = 24, .V = 20, .dtype = dtype, .data = data});
    for (const fla_test::Spoilt& spoilt : fla_test::all_spoilt(call.args, {3, 12, 19})) {
      for (const auto& [name, run] : fla_test::kEveryWay)
        fla_test::expect_causal(call.args, spoilt, fla::cases::tolerance(dtype), run);
    }
  }
}

TEST(KdaMagnitudes, AreNotLimitedByHowTheKernelsCompute) {
  fla_test::for_each_magnitude(fla_test::expect_agreement);
}

}  // namespace
