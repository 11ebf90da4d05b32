#pragma once

#include <array>
#include <string>
#include <string_view>

#include "fla/ops/kda/kda.h"

namespace fla::conformance {

/// One function of one backend of kda, or of the original kernel.
struct KdaTarget {
  std::string function, backend;

  /// Runs the call there and nowhere else. Throws BackendError when the backend does not take it.
  KdaResult run(const KdaArgs& args) const;

  /// "selected" when the backend takes this call; otherwise its state, and the reason.
  struct Answer {
    std::string state, reason, place;
    bool takes() const { return state == "selected"; }
    friend bool operator==(const Answer&, const Answer&) = default;
  };
  Answer ask(const KdaArgs& args) const;
};

inline constexpr std::array<std::string_view, 2> kKdaFunctions{"chunk_kda", "fused_recurrent_kda"};

}  // namespace fla::conformance
