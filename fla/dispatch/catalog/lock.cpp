#include "fla/dispatch/catalog/lock.h"

#include "fla/dispatch/lock_order.h"

namespace fla::dispatch {
namespace {

constinit std::mutex mutex;  // calls may outlive static objects
const bool guarded = (guard_against_fork(LockOrder::registry, mutex), true);

}  // namespace

Lock::Lock() : lock_(mutex) {}

}  // namespace fla::dispatch
