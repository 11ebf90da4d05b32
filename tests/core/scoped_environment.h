#pragma once

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fla/dispatch/settings/policy.h"

namespace fla_test {

/// Environment variables for a scope. The library reads them when the test says so (reload), and always again
/// when the old values are back. An empty value unsets the variable.
class ScopedEnvironment {
 public:
  using Setting = std::pair<std::string, std::string>;

  explicit ScopedEnvironment(std::initializer_list<Setting> settings) {
    for (const auto& [name, value] : settings) {
      const char* old = std::getenv(name.c_str());
      before_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
      put(name, value.empty() ? std::nullopt : std::optional<std::string>(value));
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) put(name, value);
    fla::reload_environment();
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

/// The same, read at once.
class ReloadedEnvironment : public ScopedEnvironment {
 public:
  explicit ReloadedEnvironment(std::initializer_list<Setting> settings) : ScopedEnvironment(settings) {
    fla::reload_environment();
  }
};

}  // namespace fla_test
