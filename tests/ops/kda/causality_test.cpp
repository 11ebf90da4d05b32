#include "tests/ops/kda/causality.h"

#include <gtest/gtest.h>

#include "tests/ops/kda/every_way.h"

namespace {

TEST(KdaCausality, NoTokenChangesWhatIsBeforeItOrBesideIt) {
  for (const auto& [name, run] : fla_test::kEveryWay) fla_test::expect_outputs_before(name, run);
}

TEST(KdaMagnitudes, AreNotLimitedByHowTheKernelsCompute) {
  fla_test::for_each_magnitude(fla_test::expect_agreement);
}

}  // namespace
