#pragma once

#include "fla/core/fork.h"

namespace fla::dispatch {

/// The dispatch's mutexes, in the order in which they nest; the core's come after them.
enum class LockOrder {
  loading,            ///< one thread loads an op's backends
  registry,           ///< ops, backends, settings
  plugins,            ///< what is known of plugin files
  config_watch,       ///< which file is watched
  config_refusal,     ///< why the last file was refused
  config_vetoes,      ///< who may refuse a file
  config_listeners,   ///< who hears of a file
  breakers,           ///< all circuit breakers
  breaker_listeners,  ///< who hears of them
  messages,           ///< texts that live for ever
  snapshots,          ///< which snapshot a function has in force
  counters,           ///< names of counters
  count
};
static_assert(static_cast<int>(LockOrder::count) <= kPlacesAboveCore);

}  // namespace fla::dispatch
