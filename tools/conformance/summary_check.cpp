#include "tools/conformance/summary_check.h"

#include <array>
#include <string>
#include <vector>

#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/check.h"
#include "tools/conformance/child.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/ring_walk.h"
#include "tools/conformance/searched_op.h"
#include "tools/conformance/summary_errors.h"

namespace fla::conformance {
namespace {

template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> summed_specs() {
  std::vector<cases::CaseSpec<Args>> specs =
      specs_with_options<Args>({.B = 2, .T = 70, .H = 1, .HV = 2, .K = 36, .V = 52});
  for (const cases::DataKind data :
       {cases::DataKind::slow, cases::DataKind::strong, cases::DataKind::resets, cases::DataKind::mixed})
    specs.push_back({.T = 100, .H = 1, .K = 64, .V = 64, .data = data});
  for (const DType dtype : {DType::bf16, DType::f16})
    specs.push_back({.H = 1, .HV = 2, .K = 128, .V = 64, .lengths = {19, 0, 90, 1}, .dtype = dtype});
  specs.back().options.state_v_first = true;
  for (auto& spec : specs) {
    if constexpr (requires { spec.options.normalize; }) spec.options.normalize = false;  // is refused
  }
  return specs;
}

}  // namespace

template <RecurrenceArgs Args>
void check_summaries(Report& report, const Options& options) {
  using Functions = cases::Functions<Args>;
  using Summary = typename Args::Summary;
  const bool original = report.backend == "original";
  bool implemented = original;
  const auto run_there = [&](const Summary& args) {
    const ScopedPolicy policy(only(Args::kOp.name, report.backend));
    bool takes = original;
    for (const Explanation::Row& row : explain(Args::kOp.name, Args::kOp.summary, args).rows) {
      if (row.name != report.backend) continue;
      implemented |= row.state != "not_implemented";
      takes = row.state == "accepted" || row.state == "selected";
    }
    ++(takes ? report.calls : report.refused);
    return takes && !original ? Functions::summary(args) : Functions::original_summary(args);
  };
  const auto run = [&](const Summary& host) {
    note_progress(std::string(Args::kOp.summary) + " [" + describe(host) + "]");
    if (options.device.is_cpu()) return run_there(host);
    DeviceCall<Summary> call(host, options.device);
    RecurrenceSummary result = call.bring_back(run_there(call.args()));
    if (!call.damage().empty() && report.failures.size() < kMostFailures)
      report.failures.push_back(std::string(Args::kOp.summary) + ": " + call.damage());
    return result;
  };
  const DType precision = original ? DType::f32 : precision_of(Args::kOp.name, report.backend);
  for (const cases::CaseSpec<Args>& spec : summed_specs<Args>()) {
    const std::string wrong = wrong_summaries<Args>(run, spec, precision);
    if (!wrong.empty() && report.failures.size() < kMostFailures) {
      report.failures.push_back(std::string(Args::kOp.summary) + ": " + wrong + " [" +
                                std::string(cases::name_of(spec.data)) + " data]");
    }
    if (!implemented) break;
  }
  if (report.calls > 0) return;
  report.refusals.push_back(implemented ? "takes no summary" : "has no " + std::string(Args::kOp.summary));
}

#define FLA_OP(NAME, ARGS) template void check_summaries<ARGS>(Report & report, const Options& options);
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
