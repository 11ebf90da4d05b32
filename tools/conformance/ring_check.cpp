#include "tools/conformance/ring_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/check.h"
#include "tools/conformance/child.h"
#include "tools/conformance/copied_call.h"
#include "tools/conformance/ring_walk.h"
#include "tools/conformance/searched_op.h"

namespace fla::conformance {
namespace {

/// Calls that backends of CPUs and of GPUs take, every kind of gates and every option among them.
template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> walked_specs() {
  std::vector<cases::CaseSpec<Args>> specs =
      specs_with_options<Args>({.B = 3, .T = 24, .H = 1, .HV = 2, .K = 64, .V = 64});
  for (const cases::DataKind data :
       {cases::DataKind::slow, cases::DataKind::strong, cases::DataKind::resets}) {
    specs.push_back({.B = 2, .T = 24, .H = 2, .K = 128, .V = 64});
    specs.back().data = data;
  }
  specs.push_back({.B = 3, .T = 24, .H = 2, .K = 36, .V = 52});
  specs.push_back({.B = 2, .T = 24, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16});
  specs.back().gate_dtype = DType::bf16;
  specs.push_back(specs.back());
  specs.back().state_dtype = DType::bf16;
  return specs;
}

}  // namespace

template <RecurrenceArgs Args>
void check_rings(Report& report, const Options& options) {
  using Functions = cases::Functions<Args>;
  using Replay = typename Args::Replay;
  const bool original = report.backend == "original";
  bool implemented = original;
  const auto step = [&](const Replay& host) {
    CopiedCall<Replay> call(host, options.device);
    note_progress(std::string(Args::kOp.replay) + " [" + describe(host) + "]");
    const ScopedPolicy policy(only(Args::kOp.name, report.backend));
    bool takes = original;
    for (const Explanation::Row& row : explain(Args::kOp.name, Args::kOp.replay, call.args()).rows) {
      if (row.name != report.backend) continue;
      implemented |= row.state != "not_implemented";
      takes = row.state == "accepted" || row.state == "selected";
    }
    ++(takes ? report.calls : report.refused);
    ReplayResult result =
        takes && !original ? Functions::replay(call.args()) : Functions::original_replay(call.args());
    call.bring_back();
    if (!options.device.is_cpu()) result.o = copy_to(result.o, {});
    return result;
  };
  const auto fold = [&](const typename Args::Fold& host) {
    CopiedCall<typename Args::Fold> call(host, options.device);
    Functions::original_fold(call.args());
    call.bring_back();
  };
  const DType precision = original ? DType::f32 : precision_of(Args::kOp.name, report.backend);
  for (const cases::CaseSpec<Args>& spec : walked_specs<Args>()) {
    double tolerance = std::max(cases::tolerance(spec.dtype), cases::tolerance(precision));
    if (spec.state_dtype == DType::bf16) tolerance = 1.6e-2;  // rounded at every fold
    for (const std::int64_t T : {1, 3}) {
      const std::string wrong =
          RingWalk<Args>(spec, {.L = 8 + T, .T = T, .steps = 14}).run(step, fold, tolerance, tolerance);
      if (!wrong.empty() && report.failures.size() < kMostFailures) {
        report.failures.push_back(std::string(Args::kOp.replay) + " of T=" + std::to_string(T) + ": " +
                                  wrong + " [" + std::string(cases::name_of(spec.data)) + " data]");
      }
    }
    if (!implemented) break;
  }
  if (report.calls > 0) return;
  report.refusals.push_back(implemented ? "takes no step over rings"
                                        : "has no " + std::string(Args::kOp.replay));
}

#define FLA_OP(NAME, ARGS) template void check_rings<ARGS>(Report & report, const Options& options);
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
