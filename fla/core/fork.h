#pragma once

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
  snapshots,
  counters,
  cuda_devices,
  device_allocator,
  log,
  count
};

/// Holds the mutex, or what else has lock() and unlock(), across every fork from now on, so that a child
/// never inherits it locked by a thread that it does not have. It must live for ever; call this while the
/// library is being loaded.
void guard_against_fork(ForkOrder order, void* mutex, void (*lock)(void*), void (*unlock)(void*));

template <class Mutex>
void guard_against_fork(ForkOrder order, Mutex& mutex) {
  guard_against_fork(
      order, &mutex, [](void* its) { static_cast<Mutex*>(its)->lock(); },
      [](void* its) { static_cast<Mutex*>(its)->unlock(); });
}

/// Whether the calling thread is the one that a fork carried over into this process: thread pools that hang
/// on it belong to the parent.
bool is_forked_thread();

}  // namespace fla
