#pragma once

#include <memory>
#include <string>

#include "fla/dispatch/settings/configuration.h"

/// The config file as the environment names it, and the thread that follows it; not installed.
namespace fla::dispatch {

/// Reads the file that FLA_CONFIG names, without effects: null when it names none. Throws ConfigError
/// "FLA_CONFIG: PATH:LINE: …".
std::shared_ptr<const Configuration> prepare_configuration(const std::string& path);

/// Follows that file from now on, and no other; an empty path: none. In a forked child, where the parent's
/// thread is gone, a new one is started. May be called with the dispatch's lock held.
void watch_configuration(const std::string& path);

}  // namespace fla::dispatch
