#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/known_names.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"

/// The plugins that a program adds itself, and what became of all.
namespace fla {

PluginStatus load_plugin(const std::string& path) {
  std::error_code error;
  (void)std::filesystem::canonical(path, error);
  if (error)
    throw InvalidArgument("path", "expected a plugin's file, got '" + path + "': " + error.message());
  const PluginStatus added = dispatch::Plugins::instance().add(path);
  std::vector<std::string> ops;
  for (const std::string& served : added.ops) ops.emplace_back(dispatch::op_of(served));
  if (!added.ops_known) {
    dispatch::Lock lock;
    for (const auto& [op, ignored] : known_names(lock).ops) ops.push_back(op);
  }
  for (const std::string& op : ops) dispatch::load_again(op);
  return dispatch::Plugins::instance().add(path);
}

std::vector<PluginStatus> plugins() {
  {
    dispatch::Lock lock;
    settings_in_force(lock).ensure_read(lock);  // FLA_PLUGIN_PATH is in it
  }
  return dispatch::Plugins::instance().status();
}

}  // namespace fla
