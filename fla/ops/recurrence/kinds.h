#pragma once

#include <cstdint>

namespace fla {

/// What decays the state before a token: nothing, one number a head, one a token and head, one a channel.
enum class GateKind : std::uint8_t { none, head, token, channel };

/// Where a head's number comes from, h counting heads from 0: a tensor, log(1 - 2^(-5 - h)), or -h times a
/// number of the call.
enum class HeadGate : std::uint8_t { given, retention, slopes };

/// What a token adds to the state, k u^T: u = v, or u = beta (v - k^T S); or k v^T + b u^T, where u = a^T S
/// of the state before it decays.
enum class Rule : std::uint8_t { additive, delta, low_rank };

}  // namespace fla
