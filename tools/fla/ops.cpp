#include "fla/dispatch/observe/ops.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "fla/core/json_line.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

using Json = nlohmann::ordered_json;

ExitCode print_ops_as_json() {
  Json all = Json::array();
  for (const OpStatus& op : ops()) {
    Json backends = Json::array();
    const auto add = [&backends](const BackendStatus& backend) {
      backends.push_back({{"name", backend.info.name},
                          {"priority", backend.info.priority},
                          {"env_var", backend.info.env_var},
                          {"package", backend.info.package},
                          {"origin", backend.origin},
                          {"enabled", backend.enabled},
                          {"available", backend.available},
                          {"reason", backend.reason},
                          {"functions", backend.functions},
                          {"doc", backend.info.doc}});
    };
    for (const BackendStatus& backend : op.backends) add(backend);
    add(op.original);
    all.push_back({{"name", op.name}, {"functions", op.functions}, {"backends", backends}});
  }
  std::cout << json_line(Json{{"ops", all}, {"devices", devices_json()}}) << '\n';
  return kDone;
}

std::string standing(const BackendStatus& backend) {
  if (!backend.available) return "unavailable: " + backend.reason;
  if (!backend.enabled) return backend.reason.empty() ? "disabled" : "disabled: " + backend.reason;
  return "available";
}

ExitCode print_ops_as_text() {
  for (const OpStatus& op : ops()) {
    std::cout << op.name << ": " << joined(op.functions) << '\n';
    TextTable table({"  backend", "priority", "toggle", "enabled", "state", "functions"});
    const auto add = [&table](const BackendStatus& backend, const std::string& priority) {
      table.add({"  " + std::string(backend.info.name), priority, std::string(backend.info.env_var),
                 backend.enabled ? "yes" : "no", standing(backend), joined(backend.functions)});
    };
    for (const BackendStatus& backend : op.backends) add(backend, std::to_string(backend.info.priority));
    add(op.original, "");
    std::cout << table.text();
  }
  std::cout << devices_text();
  return kDone;
}

}  // namespace

void add_ops(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("ops", "ops, their functions and backends, and the devices they run on");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback(
      [&chosen, json] { chosen = [json] { return *json ? print_ops_as_json() : print_ops_as_text(); }; });
}

}  // namespace fla::command
