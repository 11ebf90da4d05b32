#include "fla/dispatch/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "fla/dispatch/plan.h"
#include "fla/dispatch/registry_state.h"

namespace fla {
namespace dispatch {
namespace {

void check_type(const FunctionBase& function, const std::type_info& given, const std::type_info& expected) {
  if (given != expected) {
    throw InvalidArgument("args", "expected the arguments of " + std::string(function.op()) + "." +
                                      std::string(function.name()) + ", got those of another function");
  }
}

void validate(const FunctionBase& function, const void* args) {
  if (const auto check = function.description().validate) check(args);
}

std::string route_of(const Slot& slot, const BaseBackend& backend, const void* args) {
  try {
    return slot.route(backend, args);
  } catch (const std::exception& error) {
    return std::string("failed: ") + error.what();
  }
}

}  // namespace

Explanation explain(std::string_view op, std::string_view name, const std::type_info& type,
                    const void* args) {
  Registry& registry = Registry::instance();
  const FunctionBase& function = registry.function(op, name);
  check_type(function, type, *function.description().args_type);
  validate(function, args);
  const Registry::Lineup lineup = registry.lineup(function, args);

  Explanation explanation{.op = std::string(op),
                          .function = std::string(name),
                          .rule = lineup.rule,
                          .selected = {},
                          .error = {},
                          .rows = {}};
  explanation.dispatch_enabled = !lineup.policy.disable_dispatch.value_or(false);
  const auto required = lineup.policy.require.find(std::string(op));
  const auto preferred = lineup.policy.prefer.find(std::string(op));
  for (const Registry::Candidacy& candidacy : lineup.candidates) {
    const Entry& entry = *candidacy.entry;
    Explanation::Row row{
        entry.name, entry.info.priority, candidacy.standing.state, candidacy.standing.reason, {}, {}};
    row.preferred = preferred != lineup.policy.prefer.end() &&
                    std::ranges::find(preferred->second, entry.name) != preferred->second.end();
    if (row.state.empty()) {
      const Slot& slot = *candidacy.slot;  // what is a candidate has the function
      const Verdict verdict = ask({slot.verify, nullptr, entry.backend.get(), nullptr, 0}, args);
      row.reason = verdict.reason();
      if (verdict.ok() && slot.route != nullptr) row.route = route_of(slot, *entry.backend, args);
      if (verdict.ok() && candidacy.breaker != nullptr) row.reason = candidacy.breaker->status().reason;
      if (!verdict.ok()) {
        row.state = verdict.failed() ? "failed" : "refused";
        if (!verdict.failed()) row.place = std::string(verdict.file()) + ":" + std::to_string(verdict.line());
      } else if (candidacy.breaker != nullptr && !candidacy.breaker->admits()) {
        row.state = "open";
      } else if (explanation.dispatch_enabled && explanation.selected.empty()) {
        row.state = "selected";
        explanation.selected = entry.name;
      } else {
        row.state = "accepted";
      }
    }
    if (required != lineup.policy.require.end() && entry.name == required->second &&
        row.state != "selected") {
      explanation.error = "backend " + entry.name + " is required and " + row.state + ": " + row.reason;
    }
    explanation.rows.push_back(std::move(row));
  }
  if (!explanation.selected.empty() || !explanation.error.empty()) return explanation;
  if (required != lineup.policy.require.end()) {
    explanation.error = "backend " + required->second + " is required and is gone";
  } else {
    explanation.selected = "original";
  }
  return explanation;
}

Choice choose(std::string_view op, std::string_view name, const std::type_info& signature, const void* args) {
  const FunctionBase& function = Registry::instance().function(op, name);
  check_type(function, signature, *function.description().signature);
  validate(function, args);
  const SnapshotUse use(function);
  const Snapshot& snapshot = use->decision == nullptr ? *use : choose_by_rules(*use, args);
  for (const Candidate* candidate = snapshot.begin; candidate != snapshot.end; ++candidate) {
    const Verdict verdict = ask(*candidate, args);
    if (verdict.ok() && snapshot.fall_back && !candidate->breaker->closed()) {
      count_open(*candidate);
      continue;
    }
    if (verdict.ok()) {
      return {&function,          candidate->run,
              candidate->backend, owner_of(snapshot, *candidate),
              candidate->counter, candidate->backend->info().name,
              snapshot.traced};
    }
    count_refusal(*candidate, verdict);
  }
  if (snapshot.must_take) raise_required(function, snapshot, args);
  return {&function, nullptr, nullptr, nullptr, snapshot.original_counter, "original", snapshot.traced};
}

}  // namespace dispatch

std::string Explanation::text() const {
  std::size_t name_width = 8, state_width = 8;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    state_width = std::max(state_width, row.state.size());
  }
  const auto line = [&](const std::string& name, const std::string& priority, const std::string& state,
                        const std::string& reason) {
    std::string text = "  " + name + std::string(name_width + 2 - name.size(), ' ');
    text += std::string(4 - std::min<std::size_t>(4, priority.size()), ' ') + priority + "  " + state;
    if (!reason.empty()) text += std::string(state_width + 2 - state.size(), ' ') + reason;
    return text + "\n";
  };
  std::string text = op + "." + function + " -> " + (selected.empty() ? "error: " + error : selected);
  if (!rule.empty()) text += "  (rule " + rule + ")";
  text += dispatch_enabled ? "\n" : "  (dispatch is disabled)\n";
  for (const Row& row : rows) {
    std::string words;
    const auto say = [&words](const std::string& more) {
      if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    };
    say(row.reason);
    say(row.preferred ? "preferred" : "");
    say(row.route.empty() ? "" : "route: " + row.route);
    text += line(row.name, std::to_string(row.priority), row.state, words);
  }
  const std::string fallback = selected == "original" ? "selected" : "";
  return text + line("original", "-", fallback.empty() ? "fallback" : fallback, "");
}

std::string Explanation::json() const {
  using nlohmann::ordered_json;
  ordered_json backends = ordered_json::array();
  for (const Row& row : rows) {
    ordered_json item{
        {"name", row.name}, {"priority", row.priority}, {"state", row.state}, {"reason", row.reason}};
    if (!row.place.empty()) item["place"] = row.place;
    if (!row.route.empty()) item["route"] = row.route;
    if (row.preferred) item["preferred"] = true;
    backends.push_back(std::move(item));
  }
  ordered_json all{{"op", op},
                   {"function", function},
                   {"dispatch", dispatch_enabled ? "enabled" : "disabled"},
                   {"selected", selected.empty() ? ordered_json(nullptr) : ordered_json(selected)}};
  if (!rule.empty()) all["rule"] = rule;
  if (!error.empty()) all["error"] = error;
  all["backends"] = std::move(backends);
  return json_line(all);
}

}  // namespace fla
