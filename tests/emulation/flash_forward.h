#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "tests/emulation/device.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"

/// flash_kda's forward pass on the emulated device, kernel by kernel as its launch function puts them on a
/// stream.
namespace fla::emulation {

struct Forward {
  cases::KdaSpec spec{};    ///< K of 64 or 128, V up to 256, dtype bf16 or f16
  std::int64_t beyond = 0;  ///< tokens after the last packed sequence, all NaN
  bool fused = false;       ///< q, k, v, g and beta are slices of one row a token, with NaN beside them
  bool in_place = false;    ///< final_state is initial_state's memory
  bool without_initial_state = false;  ///< of a pool: only final_state is given
  bool crooked_states = false;         ///< states begin four bytes after where TMA could take them
  bool keep_packets = false;
  /// A gate a token: that of the first channel, copied to all channels of the case; a head: -0.03 times its
  /// number; none: the case has zeros.
  GateKind gates = GateKind::channel;
  Rule rule = Rule::delta;                       ///< additive: betas are not looked at
  std::function<void(const KdaArgs&)> change{};  ///< of the case's contents, before it is run and compared
  // Other contents, after which results are not compared with anything:
  std::vector<std::int64_t> cu_seqlens{}, state_indices{}, state_write_indices{};
  /// Prep and state one after the other with all packets kept (0 streams), or at once with `streams` CTAs for
  /// chains of states that have room for `depth` packets each.
  std::int32_t streams = 0, depth = 0;
  std::int32_t prep_blocks = 1;
  std::int32_t segments = 1;  ///< of every chain, run at once
  bool split = false;         ///< two CTAs a chain, each with half of V
  bool looks = true;          ///< whether a segment's past counts; or else it does
};

struct ForwardResult {
  std::vector<Finding> findings{};
  // Neither with a planted fault nor with other contents:
  cases::Errors errors{};
  bool is_clean =
      false;  ///< nothing was written but o of the sequences' tokens and the states of their slots
  std::set<Step> steps{};
  std::vector<std::uint16_t> o{};  ///< [B, T, HV, V], bits
  std::vector<float> final_state{};
  std::vector<bool> forgotten{};  ///< [items][segments - 1]: whether a segment has, what was before it
  std::vector<std::vector<std::byte>>
      packets{};  ///< keep_packets: of each item's chunks, one after the other
};

ForwardResult run(const Forward& forward, const Options& options = {});

/// By the forward's rule, whichever gates it has.
cases::Reference reference_of(const Forward& forward, const KdaArgs& args);

/// The first channel of every head in all of them.
void repeat_first_channel(const TensorView& x, std::int64_t channels);

}  // namespace fla::emulation
