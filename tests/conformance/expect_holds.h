#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/conformance/conformance.h"

namespace fla_test {

/// Expects every report to be right. Why nothing ran, where none of the checks did; otherwise empty.
inline std::string expect_holds(const std::vector<fla::conformance::Report>& reports) {
  std::string skipped;
  bool some_ran = false;
  for (const fla::conformance::Report& report : reports) {
    EXPECT_TRUE(report.ok()) << report.text();
    some_ran |= report.skipped.empty();
    if (!report.skipped.empty()) skipped += report.text();
  }
  return some_ran ? "" : skipped;
}

}  // namespace fla_test
