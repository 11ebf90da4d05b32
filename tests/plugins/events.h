#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

/// What happens inside a plugin is written down, a word a line, in the file that PLUGIN_EVENTS names: the
/// plugin itself may be gone when a test looks.
namespace fla_test {

inline void note(const std::string& event) {
  if (const char* file = std::getenv("PLUGIN_EVENTS")) std::ofstream(file, std::ios::app) << event << '\n';
}

/// In a library, as a static object: when its code comes and goes.
struct NotedLife {
  NotedLife() { note("opened"); }
  ~NotedLife() { note("closed"); }
};

}  // namespace fla_test
