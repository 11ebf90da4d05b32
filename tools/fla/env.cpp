#include <iostream>
#include <nlohmann/json.hpp>

#include "fla/core/environment.h"
#include "fla/core/json_line.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/text_table.h"
#include "tools/fla/variables.h"

namespace fla::command {
namespace {

using Json = nlohmann::ordered_json;

ExitCode print_variables_as_json() {
  Json all = Json::array();
  for (const ListedVariable& variable : listed_variables()) {
    const auto value = environment(variable.name);
    all.push_back({{"name", variable.name},
                   {"value", value ? Json(*value) : Json(nullptr)},
                   {"default", variable.fallback},
                   {"values", variable.values},
                   {"meaning", variable.meaning}});
  }
  std::cout << json_line(Json{{"variables", all}, {"devices", devices_json()}}) << '\n';
  return kDone;
}

ExitCode print_variables_as_text() {
  TextTable table({"variable", "value", "default", "meaning"});
  for (const ListedVariable& variable : listed_variables()) {
    table.add({variable.name, environment(variable.name).value_or("(not set)"), variable.fallback,
               variable.meaning});
  }
  std::cout << table.text() << devices_text();
  return kDone;
}

}  // namespace

void add_env(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("env", "environment variables and their values, and the devices");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([&chosen, json] {
    chosen = [json] { return *json ? print_variables_as_json() : print_variables_as_text(); };
  });
}

}  // namespace fla::command
