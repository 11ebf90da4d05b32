#pragma once

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/common/stages.h"

namespace fla::common {

/// The stages as an original kernel calls them. Made on the thread of the call, used from all threads that
/// work for it: every one of them obeys the settings of the caller.
struct StageSet {
  /// As the settings of this thread have them now: all three of one configuration.
  static StageSet current();

  /// Whether a backend may take one of them: the stages' own kernels do not fail.
  bool may_fail() const { return l2_norm.asks() || gate.asks() || solve_tril.asks(); }

  dispatch::Stage<StageResult, L2NormArgs> l2_norm;
  dispatch::Stage<StageResult, GateArgs> gate;
  dispatch::Stage<StageResult, SolveTrilArgs> solve_tril;
};

}  // namespace fla::common
