#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cases/random_case.h"
#include "tools/conformance/op_target.h"

namespace fla::conformance {

/// Calls for backends that take few: a call that one refuses is made more and more like one that the search
/// has found it to take.
template <RecurrenceArgs Args>
class NearestCall {
 public:
  /// The specification of a call that the target takes, with as little changed as that needs: sizes first,
  /// then dtypes, options and tokens; where a target takes long calls alone, tokens before all. Nothing when
  /// it takes none.
  std::optional<cases::CaseSpec<Args>> operator()(const OpTarget<Args>& target,
                                                  const cases::CaseSpec<Args>& wanted);

 private:
  const std::vector<cases::CaseSpec<Args>>& taken_by(const OpTarget<Args>& target);

  std::map<std::pair<std::string, DeviceIndices>, std::vector<cases::CaseSpec<Args>>> taken_;
};

}  // namespace fla::conformance
