#include "fla/core/index_checks.h"

#include <atomic>

#include "fla/core/environment.h"

namespace fla {
namespace {

enum class Checks { unread, off, on };
std::atomic<Checks> checks{Checks::unread};
constinit thread_local int without = 0;

}  // namespace

WithoutIndexChecks::WithoutIndexChecks() { ++without; }
WithoutIndexChecks::~WithoutIndexChecks() { --without; }

bool checks_device_indices() {
  if (without > 0) return false;
  if (checks.load(std::memory_order_relaxed) == Checks::unread)
    obey_index_checks(index_checks_of_environment());
  return checks.load(std::memory_order_relaxed) == Checks::on;
}

bool index_checks_of_environment() {
  const auto value = environment("FLA_CHECK_INDICES");
  return value && parse_switch("FLA_CHECK_INDICES", *value);
}

void obey_index_checks(bool on) { checks.store(on ? Checks::on : Checks::off, std::memory_order_relaxed); }

}  // namespace fla
