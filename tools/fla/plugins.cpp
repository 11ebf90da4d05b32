#include <iostream>
#include <nlohmann/json.hpp>

#include "fla/core/json_line.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/plugins/plugin.h"
#include "tools/fla/command.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

using Json = nlohmann::ordered_json;

struct PluginsOptions {
  bool json = false;
  bool no_load = false;
};

Json to_json(const PluginStatus& plugin) {
  return {{"path", plugin.path},
          {"name", plugin.name},
          {"state", plugin.state},
          {"reason", plugin.reason},
          {"library_version", plugin.library_version},
          {"ops", plugin.ops_known ? Json(plugin.ops) : Json(nullptr)},
          {"backends", plugin.backends}};
}

ExitCode print(const PluginsOptions& options) {
  // What is wrong with a plugin may show only when it is loaded, as its ops are.
  if (!options.no_load) (void)ops();
  Json all = Json::array();
  TextTable table({"plugin", "state", "ops", "built for", "path", ""});
  for (const PluginStatus& plugin : plugins()) {
    all.push_back(to_json(plugin));
    table.add({plugin.name, plugin.state, plugin.ops_known ? joined(plugin.ops) : "not known",
               plugin.library_version.empty() ? "not known" : "fla " + plugin.library_version, plugin.path,
               plugin.reason});
  }
  if (options.json) {
    std::cout << json_line(Json{{"plugins", all}}) << '\n';
  } else if (all.empty()) {
    std::cout << "no plugins: FLA_PLUGIN_PATH names none, and there are none in " << library_folder()
              << "/fla/plugins\n";
  } else {
    std::cout << table.text();
  }
  return kDone;
}

}  // namespace

void add_plugins(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("plugins", "plugins, whether they load, and why not");
  auto options = std::make_shared<PluginsOptions>();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--no-load", options->no_load, "look at the files alone: run none of their code");
  command->callback([&chosen, options] { chosen = [options] { return print(*options); }; });
}

}  // namespace fla::command
