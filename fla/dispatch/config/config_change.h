#pragma once

#include <memory>
#include <string>

#include "fla/dispatch/settings/configuration.h"

/// What becomes of a config file that was read again; not installed.
namespace fla::dispatch {

/// Checks it, asks the vetoes, applies it and tells the listeners; a configuration that was read later
/// and is in force already stays. Throws ConfigError, and changes nothing.
void apply_configuration(const std::shared_ptr<const Configuration>& next);

/// Tells the listeners and the log why a file is not used, once as long as the same is wrong. `next` is null
/// when it could not be read.
void report_refused(const std::string& path, const Configuration* next, const std::string& message);

/// The file is in order again: the next refusal is news.
void forget_refusal();

}  // namespace fla::dispatch
