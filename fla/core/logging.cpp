#include "fla/core/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/fork.h"

namespace fla {
namespace {

// All writing happens under this mutex and forking takes it first, so that no child inherits a sink half
// locked.
constinit std::mutex log_mutex;
const bool log_guarded = (guard_against_fork(CoreLock::log, log_mutex), true);

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger>& instance = *new std::shared_ptr<spdlog::logger>([] {
    if (auto given = spdlog::get("fla")) return given;
    auto made =
        std::make_shared<spdlog::logger>("fla", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$ %v");
    made->set_level(spdlog::level::warn);
    try {
      spdlog::register_logger(made);
    } catch (const spdlog::spdlog_ex&) {
      if (auto given = spdlog::get("fla")) return given;  // registered by somebody else meanwhile
    }
    return made;
  }());
  return *instance;
}

/// spdlog's registry goes when the process ends, and calls may come after that: the logger is looked up
/// before.
struct BeforeTheRegistryGoes {
  BeforeTheRegistryGoes() { (void)spdlog::get("fla"); }  // the registry is there from now on, and goes later
  BeforeTheRegistryGoes(const BeforeTheRegistryGoes&) = delete;
  BeforeTheRegistryGoes& operator=(const BeforeTheRegistryGoes&) = delete;
  ~BeforeTheRegistryGoes() {
    const std::lock_guard lock(log_mutex);
    try {
      (void)logger();
    } catch (const std::exception&) {  // without memory or a standard error there is nothing to write to
    }
  }
} const before_the_registry_goes;

std::optional<spdlog::level::level_enum> level_of_environment() {
  using enum spdlog::level::level_enum;
  constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 6> levels{
      {{"trace", trace}, {"debug", debug}, {"info", info}, {"warn", warn}, {"error", err}, {"off", off}}};
  const auto value = environment("FLA_LOG_LEVEL");
  if (!value) return std::nullopt;
  for (const auto& [name, level] : levels) {
    if (name == *value) return level;
  }
  throw ConfigError("FLA_LOG_LEVEL: expected one of trace debug info warn error off, got '" + *value + "'");
}

/// Without a level, goes back to what held before the variable was obeyed.
void apply_level(std::optional<spdlog::level::level_enum> level) {
  static std::optional<spdlog::level::level_enum> before;  // what the logger had of its own
  const std::lock_guard lock(log_mutex);
  if (level) {
    if (!before) before = logger().level();
    logger().set_level(*level);
  } else if (before) {
    logger().set_level(*before);
    before.reset();
  }
}

constexpr std::array kLogVariables{
    Variable{"FLA_LOG_LEVEL", "trace, debug, info, warn, error, off", "warn", "what the logger `fla` writes"},
};
const EnvironmentUser log_settings{
    EnvironmentUser::Place::core, kLogVariables,
    []() -> EnvironmentUser::Apply { return [level = level_of_environment()] { apply_level(level); }; }};

}  // namespace

void log(spdlog::level::level_enum level, std::string_view line) {
  const std::lock_guard lock(log_mutex);
  logger().log(level, "{}", line);
}

bool log_enabled(spdlog::level::level_enum level) {
  const std::lock_guard lock(log_mutex);
  return logger().should_log(level);
}

}  // namespace fla
