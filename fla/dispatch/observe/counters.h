#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/failure/breaker.h"

namespace fla {

/// What happened to the calls of one function at one backend; "original" is the original kernel.
struct BackendCounters {
  std::string op, function, backend;
  std::uint64_t taken = 0;      ///< calls that went to it
  std::uint64_t failed = 0;     ///< … and that it threw out of
  std::uint64_t fell_back = 0;  ///< … and that went on to the next backend then
  std::uint64_t turned_away =
      0;  ///< calls that it accepted and that were skipped because the breaker was open
  struct Refusal {
    std::string reason;  ///< the wording, values left out
    std::string place;   ///< file:line of the verifier that raised it; empty when the verifier itself failed
    std::uint64_t count = 0;
  };
  std::vector<Refusal> refused;
  std::optional<BreakerState> breaker;  ///< as it stands now; none for the original kernel and what is gone
};

/// Everything counted so far, by all threads: a row for each backend that has the function or had it, and one
/// for the original kernel, also when nothing was counted. Calls of original::… are not dispatched and not
/// counted. By op and function in the order of the alphabet, backends in the order in which they came, the
/// original kernel last. Counters only grow. Of backends that are gone the last 128 rows stay; what earlier
/// ones counted is added up in one row a function, whose backend is "(removed)".
FLA_API std::vector<BackendCounters> counters();

/// The same as JSON, on one line: {"counters":[{"op":…,"function":…,"backend":…,"taken":…,"failed":…,
/// "fell_back":…,"turned_away":…,"breaker":"closed"|"open"|"half_open"|null,
/// "refused":[{"reason":…,"place":…,"count":…},…]},…]}
FLA_API std::string counters_json();

/// The same in Prometheus' text format, version 0.0.4: fla_backend_{taken,failed,fell_back,turned_away}_total
/// with the labels op, function and backend, fla_backend_refused_total with reason and place besides, and the
/// gauge fla_backend_breaker_state with state besides, 1 for the state that the breaker is in.
FLA_API std::string counters_prometheus();

}  // namespace fla
