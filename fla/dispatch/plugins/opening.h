#pragma once

#include <string>

#include "fla/dispatch/plugins/arrival.h"

/// Opening one plugin's file; not installed.
namespace fla::dispatch {

/// What an opened library turned out to be.
struct Opened {
  Arrival arrival;
  std::string library_version;
  void* handle = nullptr;  ///< null when it was closed again
};

/// Loads a file and takes what it brings. Runs its code: no lock may be held.
Opened open_plugin(const std::string& path, const std::string& found_as, const std::string& name);

}  // namespace fla::dispatch
