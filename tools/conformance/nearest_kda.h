#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cases/random_case.h"
#include "tools/conformance/kda_target.h"

namespace fla::conformance {

/// Calls for backends that take few: a call that one refuses is made more and more like one that the search
/// has found it to take.
class NearestKda {
 public:
  /// The specification of a call that the target takes, with as little changed as that needs: sizes first,
  /// then dtypes, options and tokens. Nothing when it takes none.
  std::optional<cases::KdaSpec> operator()(const KdaTarget& target, const cases::KdaSpec& wanted);

 private:
  const std::vector<cases::KdaSpec>& taken_by(const KdaTarget& target);

  std::map<std::pair<std::string, DeviceIndices>, std::vector<cases::KdaSpec>> taken_;
};

}  // namespace fla::conformance
