#include "tools/conformance/range_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "tools/conformance/argument_search.h"
#include "tools/conformance/trial.h"

namespace fla::conformance {
namespace {

/// Whether the call can hold such numbers: f16 ends at 65504, and below 2^-14 it loses bits.
bool holds(const CallForm& form, const Scaling& scaling, int power) {
  constexpr int f16_most = 8;
  if (power < scaling.least || power > scaling.most) return false;
  int most = 0;
  for (const Scaling::Part& part : scaling.parts) most = std::max(most, std::abs(power * part.times));
  return most <= f16_most || std::ranges::none_of(form.table(), [&](const Argument& argument) {
           const Choice& choice = form[argument.name];
           return argument.is_tensor() && choice.given && choice.dtype == DType::f16;
         });
}

}  // namespace

void check_ranges(const SearchedOp& op, Report& report, const Options& options) {
  constexpr std::array powers{-60, -40, -16, -8, -4, 4, 8, 16, 40, 60};
  constexpr std::size_t most_failures = 20;
  for (const Target& target : targets(op, report.backend, options.device)) {
    Trial trial(op, target, report);
    for (const CallForm& base : taken_seeds(op, target)) {
      for (const Scaling& scaling : op.scalings(target)) {
        CallForm form = base;
        for (const auto& [argument, given] : scaling.with) give(form, argument, given, op.requirements());
        op.settle(form);
        const bool there =
            std::ranges::all_of(scaling.parts, [&](const auto& part) { return form[part.argument].given; });
        for (const int power : powers) {
          if (!there || !holds(form, scaling, power)) continue;
          const auto outcome = trial(form, [&](MadeCall& call) {
            for (const auto& [argument, times] : scaling.parts)
              call.scale(*find_argument(form.table(), argument), std::ldexp(1.0, power * times));
          });
          if (outcome == Trial::Outcome::wrong && report.failures.size() < most_failures) {
            report.failures.push_back(describe(target) + ": " + std::string(scaling.name) + " times 2^" +
                                      std::to_string(power) + ": " + trial.wrong());
          }
        }
      }
    }
  }
}

}  // namespace fla::conformance
