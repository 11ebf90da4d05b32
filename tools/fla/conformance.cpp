#include "tools/conformance/conformance.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/plugins/plugin.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/child.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/settings.h"

namespace fla::command {
namespace {

struct ConformanceOptions {
  std::string plugin, op, backend, device = "cpu";
  std::vector<std::string> checks;  // all of them if empty
  bool json = false, allow_not_shown = false;
};

struct Examined {
  std::string op, backend;
};

/// "op.backend" of every backend that the plugin brought. Throws InvalidArgument when it was refused.
std::vector<std::string> backends_of_plugin(const std::string& file) {
  std::string path = load_plugin(file).path;
  (void)ops();  // loads it
  for (const PluginStatus& plugin : plugins()) {
    if (plugin.path != path) continue;
    if (plugin.state != "loaded") throw InvalidArgument("--plugin", file + " was refused: " + plugin.reason);
    return plugin.backends;
  }
  throw InvalidArgument("--plugin", file + " was not found");
}

std::vector<Examined> subjects(const ConformanceOptions& options) {
  (void)parse_present_device(options.device);
  std::vector<std::string> brought;
  if (!options.plugin.empty()) brought = backends_of_plugin(options.plugin);
  std::vector<Examined> found;
  for (const OpStatus& op : ops()) {
    const auto tested = conformance::ops_with_checks();
    if (std::ranges::find(tested, op.name) == tested.end() || (!options.op.empty() && op.name != options.op))
      continue;
    std::vector<std::string> names;
    if (options.plugin.empty()) names.emplace_back("original");
    for (const BackendStatus& backend : op.backends) names.emplace_back(backend.info.name);
    for (const std::string& name : names) {
      const bool is_brought = std::ranges::find(brought, op.name + "." + name) != brought.end();
      if ((options.plugin.empty() || is_brought) && (options.backend.empty() || name == options.backend))
        found.push_back({op.name, name});
    }
  }
  if (found.empty()) {
    std::string what = options.plugin.empty() ? "there is no backend" : options.plugin + " brings no backend";
    if (!options.backend.empty()) what += " '" + options.backend + "'";
    throw InvalidArgument(
        options.backend.empty() ? "--op" : "--backend",
        what + (options.op.empty() ? " of an op with a conformance suite" : " of " + options.op));
  }
  return found;
}

/// The same, found by a child process: this one neither touches CUDA, so that its children can, nor runs a
/// plugin's code.
std::vector<Examined> subjects_by_child(const ConformanceOptions& options) {
  const conformance::ChildOutcome outcome = conformance::in_child([&] {
    std::string lines;
    for (const auto& [op, backend] : subjects(options)) lines += op + "\n" + backend + "\n";
    return lines;
  });
  if (!outcome.error.empty()) throw Error(outcome.error);
  if (!outcome.death.empty()) throw InvalidArgument("--plugin", "loading it " + outcome.death);
  std::vector<Examined> found;
  std::istringstream lines(outcome.sent);
  for (Examined one; std::getline(lines, one.op) && std::getline(lines, one.backend);) found.push_back(one);
  return found;
}

/// The checks of an op that were asked for. Throws InvalidArgument for a name that no op has.
std::vector<std::string_view> chosen_checks(const ConformanceOptions& options, std::string_view op) {
  std::vector<std::string_view> chosen;
  for (const std::string_view name : conformance::checks(op))
    if (options.checks.empty() || std::ranges::find(options.checks, name) != options.checks.end())
      chosen.push_back(name);
  for (const std::string& asked : options.checks) {
    const auto has = [&](std::string_view any) {
      const auto names = conformance::checks(any);
      return std::ranges::find(names, asked) != names.end();
    };
    if (std::ranges::none_of(conformance::ops_with_checks(), has))
      throw InvalidArgument("--check", "expected the name of a check, got '" + asked + "'");
  }
  return chosen;
}

nlohmann::ordered_json to_json(const conformance::Report& report) {
  return {{"op", report.op},
          {"backend", report.backend},
          {"check", report.check},
          {"ok", report.ok()},
          {"skipped", report.skipped},
          {"calls", report.calls},
          {"refused", report.refused},
          {"failures", report.failures},
          {"not_shown", report.not_shown},
          {"refusals", report.refusals}};
}

/// What came of a backend, said in one line. One that could not be checked has shown nothing.
enum class Outcome { passed, failed, not_checked };
Outcome verdict(const Examined& subject, const std::vector<conformance::Report>& reports, bool json) {
  const auto count = [&](auto&& holds) { return std::ranges::count_if(reports, holds); };
  const auto failed = count([](const auto& report) { return !report.failures.empty(); });
  const auto not_shown = count([](const auto& report) { return !report.not_shown.empty(); });
  const auto not_ok = count([](const auto& report) { return !report.ok(); });
  const auto skipped = count([](const auto& report) { return !report.skipped.empty(); });
  const auto called = count([](const auto& report) { return report.calls > 0; });
  const auto all = std::ssize(reports);
  const bool checked = skipped < all;
  const Outcome outcome = !checked                    ? Outcome::not_checked
                          : not_ok > 0 || called == 0 ? Outcome::failed
                                                      : Outcome::passed;
  if (json) return outcome;
  std::cout << subject.op << "." << subject.backend << ": ";
  if (!checked) {
    std::cout << "NOT CHECKED: " << reports.front().skipped << '\n';
    return outcome;
  }
  if (failed > 0) {
    std::cout << "FAILED " << failed << " of " << all - skipped << " checks";
  } else {
    std::cout << "passed " << all - skipped - not_shown << " checks";
  }
  if (not_shown > 0) std::cout << ", " << not_shown << " NOT SHOWN in full";
  if (skipped > 0) std::cout << ", " << skipped << " skipped";
  std::cout << '\n';
  return outcome;
}

ExitCode check(const ConformanceOptions& options) {
  if (!options.op.empty()) (void)conformance::checks(options.op);  // throws for an op without a suite
  const conformance::Options how{.golden_dir = conformance::golden_dir(),
                                 .device = parse_device(options.device),
                                 .allocations = fla_test::allocations,
                                 .plugin = options.plugin,
                                 .allow_not_shown = options.allow_not_shown};
  int passed = 0, failed = 0, not_checked = 0;
  for (const Examined& subject : subjects_by_child(options)) {
    std::vector<conformance::Report> reports;
    for (const std::string_view name : chosen_checks(options, subject.op)) {
      reports.push_back(conformance::run_check(subject.op, subject.backend, name, how));
      std::cout << (options.json ? json_line(to_json(reports.back())) + "\n" : reports.back().text())
                << std::flush;
    }
    if (reports.empty()) continue;
    switch (verdict(subject, reports, options.json)) {
      case Outcome::passed: ++passed; break;
      case Outcome::failed: ++failed; break;
      case Outcome::not_checked: ++not_checked; break;
    }
  }
  // Of all backends some may belong to another machine; what was asked for by name has to be checked.
  const bool named = !options.backend.empty() || !options.plugin.empty();
  return failed == 0 && passed > 0 && (not_checked == 0 || !named) ? kDone : kOutOfTolerance;
}

}  // namespace

void add_conformance(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "conformance", "holds backends to what every backend must show; exit code 1 when one does not");
  auto options = std::make_shared<ConformanceOptions>();
  command->add_option("--plugin", options->plugin, "the backends of this plugin file alone");
  command->add_option("--op", options->op, "those of this op alone");
  command->add_option("--backend", options->backend,
                      "this backend alone; 'original' for the original kernel");
  command->add_option("--device", options->device, "where they run: cpu, cuda or cuda:N");
  command->add_option("--check", options->checks, "these checks alone, such as ranges");
  command->add_flag("--allow-not-shown", options->allow_not_shown,
                    "what could not be shown of a backend does not fail it");
  command->add_flag("--json", options->json, "print JSON, one object a check");
  command->callback([&chosen, options] { chosen = [options] { return check(*options); }; });
}

}  // namespace fla::command
