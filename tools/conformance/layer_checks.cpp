#include "tools/conformance/layer_checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "fla/core/threads.h"
#include "tools/conformance/argument_search.h"
#include "tools/conformance/causality_check.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/range_check.h"
#include "tools/conformance/searched_layer.h"
#include "tools/conformance/trial.h"

namespace fla::conformance {
namespace {

std::vector<std::byte> all_bytes(const std::vector<cases::NamedTensor>& results) {
  std::vector<std::byte> all;
  for (const cases::NamedTensor& result : results)
    std::ranges::copy(bytes_of(result.tensor), std::back_inserter(all));
  return all;
}

void check_same_bits_twice(const SearchedOp& op, Report& report, const Options& options) {
  for (const Target& target : targets(op, report.backend, options.device)) {
    for (const CallForm& form : taken_seeds(op, target)) {
      MadeCall call(op, form);
      call.fill(1);
      ++report.calls;
      const std::vector<std::byte> first = all_bytes(op.run(target, call.args()));
      for (const int threads : {0, 1, 3}) {
        set_num_threads(threads);
        if (all_bytes(op.run(target, call.args())) != first)
          report.failures.push_back("other bits the second time [" + describe(call) + "]");
      }
      set_num_threads(0);
    }
  }
}

void check_verifier(const SearchedOp& op, Report& report, const Options& options) {
  for (const Target& target : targets(op, report.backend, options.device)) {
    for (const std::vector<CallForm>& group : op.seeds()) {
      for (const CallForm& form : group) {
        const MadeCall call(op, form);
        const Answer answer = op.ask(target, call.args());
        ++report.calls;
        if (op.ask(target, call.args()) != answer)
          report.failures.push_back("verifier gives two answers [" + describe(call) + "]");
        if (!answer.takes() && (answer.reason.empty() || answer.place.starts_with(":")))
          report.failures.push_back("refuses without a reason [" + describe(call) + "]");
      }
    }
  }
}

/// A check of any op, of the one that the report is about.
template <void (*check)(const SearchedOp&, Report&, const Options&)>
void search(Report& report, const Options& options) {
  check(*searched_layer_op(report.op), report, options);
  if (report.calls == 0)
    report.failures.push_back("took none of " + std::to_string(report.refused) + " calls");
}

constexpr std::array kChecks{
    Check{"arguments", search<check_arguments_one_at_a_time>},
    Check{"arguments_together", search<check_arguments_together>},
    Check{"ranges", search<check_ranges>},
    Check{"causality", search<check_causality>},
    Check{"same_bits_twice", search<check_same_bits_twice>},
    Check{"verifier", search<check_verifier>},
};

}  // namespace

std::span<const Check> layer_checks() { return kChecks; }

}  // namespace fla::conformance
