#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "fla/dispatch/settings/configuration.h"
#include "fla/dispatch/settings/policy.h"

/// Where settings come from, and what they amount to; not installed.

/// The settings of one ScopedPolicy.
struct fla::ScopedPolicy::Frame {
  Frame* parent;
  Policy policy;
};

namespace fla::dispatch {

/// `upper` on top of `lower`.
Policy merge(Policy lower, const Policy& upper);

/// The layers that settings come from, later ones on top.
struct Layers {
  std::shared_ptr<const Configuration> file;  ///< null: none
  Policy environment, program;

  /// What they amount to where that rule of the file holds, or none does, with the scopes of a thread.
  Policy together(const ConfigRule* rule, const ScopedPolicy::Frame* scope) const;
  /// The file's rules for an op, in their order.
  std::vector<const ConfigRule*> rules_for(std::string_view op) const;
};

/// Throws ConfigError when the layers contradict each other, whichever rule holds.
void check_sense(const Layers& layers, const ScopedPolicy::Frame* scope);

}  // namespace fla::dispatch
