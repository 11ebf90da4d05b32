#include "tests/ops/kda/causality.h"

#include <gtest/gtest.h>

#include "tests/ops/kda/every_way.h"

namespace {

TEST(KdaCausality, NoTokenChangesWhatIsBeforeItOrBesideIt) {
  for (const auto& [name, run] : fla_test::kEveryWay) fla_test::expect_outputs_before(name, run);
}

TEST(KdaCausality, WhatIsNotFiniteGoesNoFurtherThanInTheRecurrence) {
  for (const auto data : {fla::cases::KdaData::slow, fla::cases::KdaData::resets}) {
    const fla::cases::KdaCase call =
        fla::cases::make_kda_case({.B = 2, .T = 20, .H = 2, .K = 24, .V = 20, .data = data});
    for (const fla_test::Spoilt& spoilt : fla_test::all_spoilt(call.args, {3, 12, 19})) {
      for (const auto& [name, run] : fla_test::kEveryWay)
        fla_test::expect_causal(call.args, spoilt, fla::cases::tolerance(fla::DType::f32), run);
    }
  }
}

TEST(KdaMagnitudes, AreNotLimitedByHowTheKernelsCompute) {
  fla_test::for_each_magnitude(fla_test::expect_agreement);
}

}  // namespace
