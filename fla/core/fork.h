#pragma once

#include <mutex>

namespace fla {

/// The library's mutexes, in the order in which they nest.
enum class ForkOrder {
  loading,
  registry,
  plugins,
  config_watch,
  config_refusal,
  config_vetoes,
  config_listeners,
  breakers,
  breaker_listeners,
  messages,
  counters,
  cuda_devices,
  device_allocator,
  log,
  count
};

/// Holds the mutex across every fork from now on, so that a child never inherits it locked by a thread that
/// it does not have. The mutex must live for ever; call this while the library is being loaded.
void guard_against_fork(ForkOrder order, std::mutex& mutex);

/// Whether the calling thread is the one that a fork carried over into this process: thread pools that hang
/// on it belong to the parent.
bool is_forked_thread();

}  // namespace fla
