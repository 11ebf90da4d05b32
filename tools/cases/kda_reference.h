#pragma once

#include <cstdint>
#include <vector>

#include "fla/ops/kda/kda.h"

/// The recurrence of fla/ops/kda/kda.h in float64, written for being read and not for speed: what every
/// kernel is held to. It takes every option, dtype, stride and layout, and shares no code with the kernels.
namespace fla::cases {

struct KdaReference {
  std::vector<double> o;            ///< [B, T, HV, V]
  std::vector<double> final_state;  ///< [N, HV, K, V], or [N, HV, V, K] with state_v_first
  /// The slot of a result's final_state that holds sequence n's state, negative: none does. Empty: slot n.
  std::vector<std::int64_t> slots{};
};

/// The arguments must be valid and lie on the CPU. Of a sequence that is skipped, o and final_state are
/// zeros.
KdaReference kda_reference(const KdaArgs& args);

/// One value head of one sequence alone.
struct KdaHead {
  std::vector<double> o;      ///< [tokens of the sequence, V]
  std::vector<double> state;  ///< [K, V], always
};
KdaHead kda_reference_head(const KdaArgs& args, std::int64_t sequence, std::int64_t head);

/// The errors of a result's o and, where it is there, of the slots of final_state that were written.
struct KdaErrors {
  double o = 0, final_state = 0;
  double worst() const { return o > final_state ? o : final_state; }
};
KdaErrors kda_errors(const KdaResult& result, const KdaReference& reference);

}  // namespace fla::cases
