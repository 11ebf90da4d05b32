#include "fla/ops/common/index_checks.h"

#include <array>
#include <atomic>

#include "fla/core/environment_user.h"
#include "fla/core/untouched_data.h"

namespace fla {
namespace {

enum class Checks { unread, off, on };
std::atomic<Checks> checks{Checks::unread};

Checks checks_of_environment() {
  const auto value = environment("FLA_CHECK_INDICES");
  return value && parse_switch("FLA_CHECK_INDICES", *value) ? Checks::on : Checks::off;
}
void apply(Checks now) { checks.store(now, std::memory_order_relaxed); }

constexpr std::array kVariables{
    Variable{"FLA_CHECK_INDICES", "switch", "0",
             "read and check cu_seqlens and state indices that lie on a device before a call runs (waits for "
             "its stream, for debugging)"},
};
const EnvironmentUser user{EnvironmentUser::Place::ops, kVariables, []() -> EnvironmentUser::Apply {
                             return [now = checks_of_environment()] { apply(now); };
                           }};

}  // namespace

bool checks_device_indices() {
  if (UntouchedData::is_on()) return false;
  if (checks.load(std::memory_order_relaxed) == Checks::unread) apply(checks_of_environment());
  return checks.load(std::memory_order_relaxed) == Checks::on;
}

}  // namespace fla
