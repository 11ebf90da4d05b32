#include "fla/dispatch/observe/registry_snapshot.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fla/core/json_line.h"
#include "fla/dispatch/call/thread_state.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/choice/standing.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"

namespace fla {
namespace {

using Json = nlohmann::ordered_json;

/// The fields that say something.
Json json_of(const Policy& policy) {
  Json json = Json::object();
  const auto add = [&json](const char* name, const auto& field) {
    if (field) json[name] = *field;
  };
  const auto add_map = [&json](const char* name, const auto& map) {
    if (!map.empty()) json[name] = map;
  };
  add("disable_dispatch", policy.disable_dispatch);
  add_map("enable", policy.enable);
  add_map("order", policy.order);
  add_map("prefer", policy.prefer);
  add("allow", policy.allow);
  add("deny", policy.deny);
  add_map("require", policy.require);
  if (policy.on_failure) json["on_failure"] = *policy.on_failure == OnFailure::raise ? "raise" : "fallback";
  add("batch_invariant", policy.batch_invariant);
  add("check_verifiers", policy.check_verifiers);
  add("breaker_threshold", policy.breaker_threshold);
  add("breaker_window_ms", policy.breaker_window_ms);
  add("breaker_cool_down_ms", policy.breaker_cool_down_ms);
  return json;
}

Json json_of(const RegistrySnapshot::Backend& backend) {
  Json breakers = Json::array();
  for (const RegistrySnapshot::FunctionBreaker& breaker : backend.breakers) {
    breakers.push_back({{"function", breaker.function},
                        {"state", name_of(breaker.state)},
                        {"failures", breaker.failures},
                        {"reason", breaker.reason}});
  }
  return {{"name", backend.name},           {"priority", backend.priority},
          {"env_var", backend.env_var},     {"default_enable", backend.default_enable},
          {"package", backend.package},     {"doc", backend.doc},
          {"origin", backend.origin},       {"functions", backend.functions},
          {"state", backend.state},         {"reason", backend.reason},
          {"breakers", std::move(breakers)}};
}

Json json_of(const PluginStatus& plugin) {
  return {{"path", plugin.path},
          {"name", plugin.name},
          {"state", plugin.state},
          {"reason", plugin.reason},
          {"library_version", plugin.library_version},
          {"ops", plugin.ops},
          {"backends", plugin.backends}};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "  a   bb  c": each cell as wide as its column, the last as it is.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += "  " + row[i] + std::string(widths[i] - row[i].size(), ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

namespace dispatch {
namespace {

RegistrySnapshot::Backend described(const BackendInfo& info) {
  RegistrySnapshot::Backend backend;
  backend.name = info.name;
  backend.package = info.package;
  backend.env_var = info.env_var;
  backend.doc = info.doc;
  backend.priority = info.priority;
  backend.default_enable = info.default_enable;
  return backend;
}

void place(RegistrySnapshot::Backend& backend, const Standing& where) {
  backend.state = where.state.empty() ? "enabled" : where.state;
  backend.reason = where.reason;
}

}  // namespace
}  // namespace dispatch

RegistrySnapshot registry_snapshot() {
  using namespace dispatch;
  Lock lock;
  SettingsInForce& settings = settings_in_force(lock);
  settings.ensure_read(lock);
  load_known(lock);
  RegistrySnapshot all;
  const Layers& layers = settings.layers;
  all.policy = layers.together(nullptr, thread_state.scope);
  if (layers.file != nullptr) {
    all.config_path = layers.file->path;
    all.config_rules = layers.file->rules.size();
  }
  for (auto& [name, op] : catalog(lock).ops) {
    RegistrySnapshot::Op& its = all.ops.emplace_back();
    its.name = name;
    for (const FunctionBase* function : op.functions) its.functions.emplace_back(function->name());
    for (const auto& entry : op.entries) {
      RegistrySnapshot::Backend& backend = its.backends.emplace_back(described(entry->info));
      backend.name = entry->name;
      backend.origin = entry->origin.empty() ? "linked in" : entry->origin;
      Standing where{"unavailable", entry->availability.reason};
      for (const Slot& slot : entry->slots) {
        if (slot.run == nullptr) continue;
        backend.functions.emplace_back(slot.function);
        where = standing(op, *entry, slot.function, all.policy, settings);  // the same for each of them
        const Breaker::Status breaker = entry->pair(name, slot.function).breaker->status();
        backend.breakers.push_back(
            {std::string(slot.function), breaker.state, breaker.failures, breaker.reason});
      }
      place(backend, where);
    }
    its.original = described(kOriginalKernel);
    its.original.origin = "op";
    its.original.functions = its.functions;
    place(its.original, standing_by_require(all.policy, name, kOriginalKernel.name));
  }
  all.plugins = Plugins::instance().status();
  all.generation = dispatch::generation();
  return all;
}

std::string RegistrySnapshot::text() const {
  std::string text =
      "generation " + std::to_string(generation) + "\npolicy " + json_line(json_of(policy)) + "\n";
  if (!config_path.empty())
    text += "config " + config_path + ", " + std::to_string(config_rules) + " rules\n";
  for (const Op& op : ops) {
    text += op.name + ": " + joined(op.functions) + "\n";
    std::vector<std::vector<std::string>> rows;
    const auto add = [&rows](const Backend& backend, const std::string& priority) {
      rows.push_back(
          {backend.name, priority, backend.state, backend.origin, joined(backend.functions), backend.reason});
    };
    for (const Backend& backend : op.backends) {
      add(backend, std::to_string(backend.priority));
      for (const FunctionBreaker& breaker : backend.breakers) {
        if (breaker.state == BreakerState::closed) continue;
        rows.push_back({"", "", std::string(name_of(breaker.state)), "", breaker.function, breaker.reason});
      }
    }
    add(op.original, "-");
    text += aligned(rows);
  }
  if (!plugins.empty()) text += "plugins:\n";
  std::vector<std::vector<std::string>> rows;
  for (const PluginStatus& plugin : plugins)
    rows.push_back({plugin.name, plugin.state, plugin.path, joined(plugin.ops), plugin.reason});
  return text + aligned(rows);
}

std::string RegistrySnapshot::json() const {
  Json listed_ops = Json::array(), listed_plugins = Json::array();
  for (const Op& op : ops) {
    Json backends = Json::array();
    for (const Backend& backend : op.backends) backends.push_back(json_of(backend));
    backends.push_back(json_of(op.original));
    listed_ops.push_back({{"name", op.name}, {"functions", op.functions}, {"backends", std::move(backends)}});
  }
  for (const PluginStatus& plugin : plugins) listed_plugins.push_back(json_of(plugin));
  const Json config =
      config_path.empty() ? Json(nullptr) : Json{{"path", config_path}, {"rules", config_rules}};
  return json_line(Json{{"generation", generation},
                        {"policy", json_of(policy)},
                        {"config", config},
                        {"ops", std::move(listed_ops)},
                        {"plugins", std::move(listed_plugins)}});
}

}  // namespace fla
