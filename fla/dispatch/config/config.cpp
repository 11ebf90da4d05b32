#include "fla/dispatch/config/config.h"

#include <mutex>
#include <utility>

#include "fla/core/errors.h"
#include "fla/core/listeners.h"
#include "fla/core/logging.h"
#include "fla/dispatch/config/config_change.h"
#include "fla/dispatch/config/config_file.h"
#include "fla/dispatch/config/config_target.h"
#include "fla/dispatch/lock_order.h"

namespace fla {
namespace {

using Veto = std::optional<std::string>(const ConfigChange&);
using Listener = void(const ConfigChange&);

// Never freed: subscriptions may end late.
Listeners<Veto>& vetoes() {
  static auto& all = *new Listeners<Veto>;
  return all;
}
Listeners<Listener>& listeners() {
  static auto& all = *new Listeners<Listener>;
  return all;
}

constinit std::mutex refusal_mutex;
const bool guarded = (guard_against_fork(dispatch::LockOrder::config_refusal, refusal_mutex),
                      guard_against_fork(dispatch::LockOrder::config_vetoes, vetoes().mutex()),
                      guard_against_fork(dispatch::LockOrder::config_listeners, listeners().mutex()), true);

/// What was refused last, and why.
std::string& last_refusal() {
  static auto& text = *new std::string;
  return text;
}

ConfigChange change_of(const dispatch::Configuration& configuration) {
  return {.path = configuration.path, .policy = configuration.policy, .rules = configuration.rules.size()};
}

void tell(const ConfigChange& change) {
  for (const auto& listener : listeners().all()) {
    try {
      (*listener)(change);
    } catch (const std::exception& error) {
      log(spdlog::level::warn, std::string("[FLA Config] a listener threw: ") + error.what());
    } catch (...) {
      log(spdlog::level::warn, "[FLA Config] a listener threw an exception of unknown type");
    }
  }
}

void ask_vetoes(const ConfigChange& change) {
  const auto refuse = [&change](const std::string& reason) -> ConfigError {
    return ConfigError(change.path + ": vetoed: " + reason);
  };
  for (const auto& veto : vetoes().all()) {
    std::optional<std::string> reason;
    try {
      reason = (*veto)(change);
    } catch (const std::exception& error) {
      reason = std::string("the callback threw: ") + error.what();
    } catch (...) {
      reason = "the callback threw an exception of unknown type";
    }
    if (reason) throw refuse(*reason);
  }
}

}  // namespace

namespace dispatch {

void apply_configuration(const std::shared_ptr<const Configuration>& next) {
  const ConfigTarget& target = config_target();
  const std::uint64_t generation = target.generation();
  const KnownNames known = target.known_names();
  check_names(*next, known);
  next->compile(known);
  const ConfigChange change = change_of(*next);
  ask_vetoes(change);
  if (!target.replace(next, generation)) return;
  forget_refusal();
  log(spdlog::level::info, "[FLA Config] " + change.path + " is in force, " + std::to_string(change.rules) +
                               (change.rules == 1 ? " rule" : " rules"));
  tell(change);
}

void report_refused(const std::string& path, const Configuration* next, const std::string& message) {
  {
    const std::lock_guard lock(refusal_mutex);
    std::string refusal = message + '\n' + (next != nullptr ? next->text : "");
    if (refusal == last_refusal()) return;
    last_refusal() = std::move(refusal);
  }
  log(spdlog::level::warn, "[FLA Config] " + message + "; the settings in force stay");
  ConfigChange change;
  if (next != nullptr) change = change_of(*next);
  change.path = path;
  change.accepted = false;
  change.message = message;
  tell(change);
}

void forget_refusal() {
  const std::lock_guard lock(refusal_mutex);
  last_refusal().clear();
}

}  // namespace dispatch

Subscription veto_config(std::function<Veto> veto) { return vetoes().add(std::move(veto)); }

Subscription on_config_change(std::function<Listener> listener) {
  return listeners().add(std::move(listener));
}

void reload_config() {
  const auto before = dispatch::config_target().in_force();
  if (before == nullptr) throw ConfigError("reload_config: FLA_CONFIG names no file");
  std::shared_ptr<dispatch::Configuration> next;
  try {
    next =
        std::make_shared<dispatch::Configuration>(dispatch::read_configuration(before->file, before->path));
    dispatch::apply_configuration(next);
  } catch (const ConfigError& error) {
    dispatch::report_refused(before->path, next.get(), error.what());
    throw;
  }
}

ConfigSummary check_config(const std::string& path) {
  const dispatch::Configuration configuration = dispatch::read_configuration(path);
  try {
    dispatch::config_target().load_all();
  } catch (const ConfigError&) {
    // FLA_CONFIG may be what is wrong: the names that are known without it have to do.
  }
  dispatch::check_names(configuration, dispatch::config_target().known_names());
  return {configuration.policy, configuration.rules.size()};
}

}  // namespace fla
