#pragma once

#include <type_traits>

namespace fla {

/// Every mutex of the library has a place; those with lower places are locked first. Places below
/// kPlacesAboveCore belong to what is built on the core (dispatch/lock_order.h), the others to the core.
inline constexpr int kPlacesAboveCore = 24;
enum class CoreLock { cuda_devices = kPlacesAboveCore, device_allocator, log, end };

/// Holds the mutex, or what else has lock() and unlock(), across every fork from now on, so that a child
/// never inherits it locked by a thread that it does not have. It must live for ever; call this while the
/// library is being loaded.
void guard_against_fork(int place, void* mutex, void (*lock)(void*), void (*unlock)(void*));

template <class Place, class Mutex>
requires std::is_enum_v<Place>
void guard_against_fork(Place place, Mutex& mutex) {
  guard_against_fork(
      static_cast<int>(place), &mutex, [](void* its) { static_cast<Mutex*>(its)->lock(); },
      [](void* its) { static_cast<Mutex*>(its)->unlock(); });
}

/// Whether the calling thread is the one that a fork carried over into this process: thread pools that hang
/// on it belong to the parent.
bool is_forked_thread();

}  // namespace fla
