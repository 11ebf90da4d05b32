#include "fla/dispatch/observe/counters.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "fla/dispatch/call/counter_table.h"

namespace fla {
namespace {

BackendCounters row(const dispatch::CounterName& name, const dispatch::CounterTotals& totals) {
  BackendCounters made{.op = name.op,
                       .function = name.function,
                       .backend = name.backend,
                       .taken = totals.taken,
                       .failed = totals.failed,
                       .fell_back = totals.fell_back,
                       .turned_away = totals.turned_away,
                       .refused = {},
                       .breaker = {}};
  // A wording that stands in a header is one reason, in however many libraries it was compiled.
  std::map<std::pair<std::string, std::string>, std::uint64_t> refused;
  for (const auto& [reason, count] : totals.refused) {
    const auto& [text, file, line] = reason;
    const std::string place = *file == '\0' ? "" : std::string(file) + ":" + std::to_string(line);
    refused[{text, place}] += count;
  }
  for (const auto& [reason, count] : refused) made.refused.push_back({reason.first, reason.second, count});
  return made;
}

}  // namespace

std::vector<BackendCounters> counters() {
  std::vector<BackendCounters> found;
  for (const auto& [name, totals] : dispatch::counted_so_far()) found.push_back(row(name, totals));
  for (BackendCounters& counted : found) {
    if (const auto breaker = dispatch::find_breaker(counted.op, counted.function, counted.backend)) {
      counted.breaker = breaker->state();
    }
  }
  std::ranges::stable_sort(found, {}, [](const BackendCounters& counted) {
    return std::tuple(counted.op, counted.function, counted.backend == "original");
  });
  return found;
}

}  // namespace fla
