#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/entry.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/choice/standing.h"
#include "fla/dispatch/settings/policy.h"

/// Who is asked for a function under the settings of a thread; not installed.
namespace fla::dispatch {

/// The snapshot for calls of the calling thread now. Loads the op's backends. Throws ConfigError.
SharedSnapshot snapshot_of(const FunctionBase& function);

/// What keeps the backend of a snapshot's candidate alive.
std::shared_ptr<const void> owner_of(const Snapshot& snapshot, const Candidate& candidate);

/// Everybody whom this call of the function could go to on this thread, in the order of asking.
struct Lineup {
  struct Candidacy {
    std::shared_ptr<const Entry> entry;  ///< keeps what the candidate points to alive
    Standing standing;
    std::optional<Candidate> candidate;  ///< where nothing stands in the way
  };

  Policy policy;
  std::string rule;         ///< FILE:LINE of the rule that holds for the call, if one does
  SharedSnapshot snapshot;  ///< that of the rule
  std::vector<Candidacy> candidates;
};
Lineup lineup_of(const FunctionBase& function, const void* args);

}  // namespace fla::dispatch
