#include "fla/dispatch/observe/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fla/core/json_line.h"
#include "fla/core/untouched_data.h"
#include "fla/dispatch/call/answer.h"
#include "fla/dispatch/choice/snapshots.h"
#include "fla/dispatch/choice/standing.h"

namespace fla {
namespace dispatch {
namespace {

std::string route_of(const Slot& slot, const BaseBackend& backend, const void* args) {
  try {
    return slot.route(backend, args);
  } catch (const std::exception& error) {
    return std::string("failed: ") + error.what();
  }
}

}  // namespace

Explanation explain(const FunctionBase& function, const void* args) {
  {
    const UntouchedData untouched;
    function.check(args);
  }
  const Lineup lineup = lineup_of(function, args);

  const std::string op(function.op());
  Explanation explanation{.op = op,
                          .function = std::string(function.name()),
                          .rule = lineup.rule,
                          .selected = {},
                          .error = {},
                          .rows = {}};
  explanation.dispatch_enabled = !lineup.policy.disable_dispatch.value_or(false);
  const auto required = lineup.policy.require.find(op);
  const auto preferred = lineup.policy.prefer.find(op);
  for (const Lineup::Candidacy& candidacy : lineup.candidates) {
    const Entry& entry = *candidacy.entry;
    Explanation::Row row{
        entry.name, entry.info.priority, candidacy.standing.state, candidacy.standing.reason, {}, {}};
    row.preferred = preferred != lineup.policy.prefer.end() &&
                    std::ranges::find(preferred->second, entry.name) != preferred->second.end();
    if (row.state.empty()) {
      const Candidate& candidate = *candidacy.candidate;
      const Answer answer =
          answer_of<Asker::observer>(candidate, *lineup.snapshot, args, function.description().args_size);
      const Verdict& verdict = answer.verdict;
      const Slot& slot = *entry.slot(function.name());
      row.reason = verdict.reason();
      if (verdict.ok() && slot.route != nullptr) row.route = route_of(slot, *entry.backend, args);
      if (verdict.ok() && lineup.snapshot->fall_back) row.reason = candidate.breaker->status().reason;
      if (answer.kind == Answer::Kind::refuses) {
        row.state = verdict.failed() ? "failed" : "refused";
        if (!verdict.failed()) row.place = std::string(verdict.file()) + ":" + std::to_string(verdict.line());
      } else if (answer.kind == Answer::Kind::breaker_open) {
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
  explanation.original = {.name = std::string(kOriginalKernel.name), .priority = kOriginalKernel.priority};
  const Standing original = standing_by_require(lineup.policy, op, kOriginalKernel.name);
  if (original.state.empty() && explanation.selected.empty()) explanation.selected = kOriginalKernel.name;
  explanation.original.state = !original.state.empty()                        ? original.state
                               : explanation.selected == kOriginalKernel.name ? "selected"
                                                                              : "accepted";
  explanation.original.reason = original.reason;
  if (explanation.selected.empty() && explanation.error.empty())
    explanation.error = "backend " + required->second + " is required and is gone";
  return explanation;
}

}  // namespace dispatch

std::string Explanation::text() const {
  std::vector<Row> all = rows;
  all.push_back(original);
  std::size_t name_width = 0, state_width = 0;
  for (const Row& row : all) {
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
  for (const Row& row : all) {
    std::string words;
    const auto say = [&words](const std::string& more) {
      if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    };
    say(row.reason);
    say(row.preferred ? "preferred" : "");
    say(row.route.empty() ? "" : "route: " + row.route);
    text += line(row.name, &row == &all.back() ? "-" : std::to_string(row.priority), row.state, words);
  }
  return text;
}

std::string Explanation::json() const {
  using nlohmann::ordered_json;
  ordered_json backends = ordered_json::array();
  const auto add = [&backends](const Row& row) {
    ordered_json item{
        {"name", row.name}, {"priority", row.priority}, {"state", row.state}, {"reason", row.reason}};
    if (!row.place.empty()) item["place"] = row.place;
    if (!row.route.empty()) item["route"] = row.route;
    if (row.preferred) item["preferred"] = true;
    backends.push_back(std::move(item));
  };
  for (const Row& row : rows) add(row);
  add(original);
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
