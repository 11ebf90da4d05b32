#include "tools/conformance/conformance.h"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <optional>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/plugins/plugin.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/child.h"
#include "tools/conformance/layer_checks.h"
#include "tools/conformance/recurrence_checks.h"
#include "tools/conformance/report_text.h"
#include "tools/conformance/searched_layer.h"
#include "tools/conformance/stage_checks.h"

namespace fla::conformance {
namespace {

/// An op's checks and their names.
struct Suite {
  explicit Suite(std::span<const Check> all) : checks(all) {
    for (const Check& check : all) names.push_back(check.name);
  }
  std::span<const Check> checks;
  std::vector<std::string_view> names;
};

/// Throws InvalidArgument.
const Suite& suite_of(std::string_view op) {
  static const Suite common(stage_checks());
  if (op == "common") return common;
  static const Suite layer(layer_checks());
  if (searched_layer_op(op) != nullptr) return layer;
  if (std::ranges::find(ops_with_checks(), op) == ops_with_checks().end()) {
    std::string names;
    for (const std::string_view name : ops_with_checks())
      names += (names.empty() ? "" : ", ") + std::string(name);
    throw InvalidArgument("op", "expected one of " + names + ", got '" + std::string(op) + "'");
  }
  return cases::with_op(op, []<class Args>(std::type_identity<Args>) -> const Suite& {
    static const Suite suite(recurrence_checks<Args>());
    return suite;
  });
}

/// Why calls cannot be made on the device; empty when they can.
std::string absence(std::string_view op, Device device) {
  if (device.is_cpu()) return "";
  if (op == "common") return "stages run on cpu, not on " + to_string(device);
  if (!why_no_cuda_device().empty()) return std::string(why_no_cuda_device());
  return find_cuda_device(device) == nullptr ? "there is no " + to_string(device) : "";
}

/// Why the backend cannot be checked here; empty when it can, nothing when there is no such backend.
std::optional<std::string> absence(std::string_view op, std::string_view backend) {
  if (backend == "original") return "";
  for (const OpStatus& status : ops()) {
    if (status.name != op) continue;
    for (const BackendStatus& row : status.backends) {
      if (row.info.name == backend) return row.available ? "" : row.reason;
    }
  }
  return std::nullopt;
}

/// Fills in the report. False when there is no such backend.
bool examine(Report& report, const Options& options) {
  if (!options.plugin.empty()) (void)load_plugin(options.plugin);
  const std::optional<std::string> absent = absence(report.op, report.backend);
  if (!absent) return false;
  report.skipped = absent->empty() ? absence(report.op, options.device) : *absent;
  if (!report.skipped.empty()) return true;
  for (const Check& check : suite_of(report.op).checks) {
    if (check.name != report.check) continue;
    try {
      check.run(report, options);
    } catch (const std::exception& error) {
      report.failures.push_back(std::string("threw: ") + error.what());
    }
  }
  return true;
}

bool examine_in_child(Report& report, const Options& options) {
  constexpr std::string_view unknown = "unknown";
  const ChildOutcome outcome =
      in_child([&] { return examine(report, options) ? packed(report) : std::string(unknown); });
  if (outcome.sent == unknown) return false;
  if (!outcome.sent.empty()) report = unpacked_report(outcome.sent);
  if (!outcome.error.empty()) report.failures.push_back("threw: " + outcome.error);
  if (!outcome.death.empty())
    report.failures.push_back(outcome.death + (outcome.doing.empty() ? "" : ", in " + outcome.doing));
  return true;
}

}  // namespace

std::string Report::text() const {
  std::string lines = op + "." + backend + " " + check + ": ";
  if (!skipped.empty()) return lines + "skipped, " + skipped + "\n";
  lines += std::to_string(calls) + " calls, " + std::to_string(refused) + " refused, " +
           std::to_string(failures.size()) + " failures\n";
  for (const std::string& failure : failures) lines += "  " + failure + "\n";
  for (const std::string& what : not_shown) lines += "  not shown: " + what + "\n";
  for (const std::string& refusal : refusals) lines += "  refused: " + refusal + "\n";
  return lines;
}

std::span<const std::string_view> ops_with_checks() {
  static constexpr auto names = [] {
#define FLA_OP(NAME, ARGS) #NAME,
    constexpr auto layer = std::to_array<std::string_view>({FLA_LAYER_OPS(FLA_OP)});
#undef FLA_OP
    std::array<std::string_view, 1 + cases::kOpNames.size() + layer.size()> all{"common"};
    std::ranges::copy(layer, std::ranges::copy(cases::kOpNames, all.begin() + 1).out);
    return all;
  }();
  return names;
}

std::vector<std::string> backends_of(std::string_view op) {
  const ChildOutcome outcome = in_child([&] {
    std::vector<std::string> names{"original"};
    for (const OpStatus& status : ops()) {
      if (status.name != op) continue;
      for (const BackendStatus& backend : status.backends) names.emplace_back(backend.info.name);
    }
    return packed(names);
  });
  if (!outcome.error.empty()) throw Error(outcome.error);
  if (!outcome.death.empty()) throw Error("listing the backends " + outcome.death);
  return unpacked_texts(outcome.sent);
}

std::string golden_dir() {
  constexpr int most_levels = 4;  // <prefix>/lib/<machine>/…
  std::filesystem::path folder = library_folder();
  for (int level = 0; level < most_levels && folder.has_relative_path(); ++level) {
    std::error_code ignored;
    if (std::filesystem::is_directory(folder / "share/fla/golden", ignored))
      return (folder / "share/fla/golden").string();
    folder = folder.parent_path();
  }
  return "";
}

std::span<const std::string_view> checks(std::string_view op) { return suite_of(op).names; }

Report run_check(std::string_view op, std::string_view backend, std::string_view name,
                 const Options& options) {
  const auto known = checks(op);
  if (std::ranges::find(known, name) == known.end()) {
    throw InvalidArgument("check",
                          "expected a check of " + std::string(op) + ", got '" + std::string(name) + "'");
  }
  Report report{.op = std::string(op), .backend = std::string(backend), .check = std::string(name)};
  const bool child = options.in_child && (options.device.is_cpu() || !uses_cuda());
  if (!(child ? examine_in_child(report, options) : examine(report, options))) {
    throw InvalidArgument(
        "backend", "expected a backend of " + std::string(op) + ", got '" + std::string(backend) + "'");
  }
  report.allow_not_shown = options.allow_not_shown;
  return report;
}

std::vector<Report> run_conformance(std::string_view op, std::string_view backend, const Options& options) {
  std::vector<Report> reports;
  for (const std::string_view check : checks(op)) reports.push_back(run_check(op, backend, check, options));
  return reports;
}

}  // namespace fla::conformance
