#include "tests/conformance/conformance.h"

#include <algorithm>
#include <exception>

#include "fla/core/errors.h"
#include "fla/dispatch/registry.h"
#include "tests/conformance/kda_checks.h"

namespace fla::conformance {
namespace {

const std::vector<std::string_view>& kda_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> found;
    for (const KdaCheck& check : kda_checks()) found.push_back(check.name);
    return found;
  }();
  return names;
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

std::span<const std::string_view> checks(std::string_view op) {
  if (op == "kda") return kda_names();
  throw InvalidArgument("op", "expected an op with a conformance suite, got '" + std::string(op) + "'");
}

Report run_check(std::string_view op, std::string_view backend, std::string_view name,
                 const Options& options) {
  const auto known = checks(op);
  if (std::ranges::find(known, name) == known.end()) {
    throw InvalidArgument("check",
                          "expected a check of " + std::string(op) + ", got '" + std::string(name) + "'");
  }
  Report report{.op = std::string(op), .backend = std::string(backend), .check = std::string(name)};
  report.skipped = absence(op, backend);
  if (!report.skipped.empty()) return report;
  for (const KdaCheck& check : kda_checks()) {
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
