#include "tests/conformance/conformance.h"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "fla/dispatch/plugin.h"
#include "fla/dispatch/registry.h"
#include "tests/conformance/kda_checks.h"
#include "tests/conformance/stage_checks.h"

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
  static const Suite common(stage_checks()), kda(kda_checks());
  if (op == "common") return common;
  if (op == "kda") return kda;
  throw InvalidArgument("op", "expected an op with a conformance suite, got '" + std::string(op) + "'");
}

/// Why calls cannot be made on the device; empty when they can.
std::string absence(std::string_view op, Device device) {
  if (device.is_cpu()) return "";
  if (op == "common") return "stages run on cpu, not on " + to_string(device);
  if (!why_no_cuda_device().empty()) return std::string(why_no_cuda_device());
  return find_cuda_device(device) == nullptr ? "there is no " + to_string(device) : "";
}

/// Why the backend cannot be checked here; empty when it can.
std::string absence(std::string_view op, std::string_view backend) {
  if (backend == "original") return "";
  for (const OpStatus& status : ops()) {
    if (status.name != op) continue;
    for (const BackendStatus& row : status.backends) {
      if (row.info.name == backend) return row.available ? "" : row.reason;
    }
  }
  throw InvalidArgument("backend",
                        "expected a backend of " + std::string(op) + ", got '" + std::string(backend) + "'");
}

}  // namespace

std::string Report::text() const {
  std::string lines = op + "." + backend + " " + check + ": ";
  if (!skipped.empty()) return lines + "skipped, " + skipped + "\n";
  lines += std::to_string(calls) + " calls, " + std::to_string(refused) + " refused, " +
           std::to_string(failures.size()) + " failures\n";
  for (const std::string& failure : failures) lines += "  " + failure + "\n";
  return lines;
}

std::span<const std::string_view> ops_with_checks() {
  static constexpr std::array<std::string_view, 2> names{"common", "kda"};
  return names;
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
  report.skipped = absence(op, backend);
  if (report.skipped.empty()) report.skipped = absence(op, options.device);
  if (!report.skipped.empty()) return report;
  for (const Check& check : suite_of(op).checks) {
    if (check.name != name) continue;
    try {
      check.run(report, options);
    } catch (const std::exception& error) {
      report.failures.push_back(std::string("threw: ") + error.what());
    }
  }
  return report;
}

std::vector<Report> run_conformance(std::string_view op, std::string_view backend, const Options& options) {
  std::vector<Report> reports;
  for (const std::string_view check : checks(op)) reports.push_back(run_check(op, backend, check, options));
  return reports;
}

}  // namespace fla::conformance
