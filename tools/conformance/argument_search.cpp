#include "tools/conformance/argument_search.h"

#include <algorithm>
#include <map>
#include <set>

#include "fla/core/errors.h"
#include "tools/conformance/trial.h"

namespace fla::conformance {
namespace {

std::vector<Variation> variations_of(const SearchedOp& op) {
  return variations(
      op.op().arguments, op.requirements(), [&](const Argument& argument) { return op.numbers(argument); },
      [&](Axis axis) { return op.sizes(axis); });
}

CallForm varied(const SearchedOp& op, CallForm form, const Variation& variation) {
  variation.apply(form);
  op.settle(form);
  return form;
}

/// What came of a variation on one target, over all calls that were tried with it.
struct Finding {
  bool right = false;
  std::string wrong, refused;
};

}  // namespace

std::vector<CallForm> taken_seeds(const SearchedOp& op, const Target& target) {
  const auto taken_of = [&](const std::vector<std::vector<CallForm>>& groups) {
    std::vector<CallForm> found;
    for (const std::vector<CallForm>& group : groups) {
      for (const CallForm& seed : group) {
        const MadeCall call(op, seed);
        if (!is_valid(op, call) || !op.ask(target, call.args()).takes()) continue;
        found.push_back(seed);
        break;
      }
    }
    return found;
  };
  const std::vector<CallForm> found = taken_of(op.seeds());
  return found.empty() ? taken_of(op.long_seeds()) : found;
}

std::vector<Target> targets(const SearchedOp& op, const std::string& backend, Device device) {
  std::vector<Target> all;
  for (const std::string_view function : op.op().functions) {
    for (const bool on_host : {false, true}) {
      if (!on_host || !device.is_cpu()) all.push_back({std::string(function), backend, device, on_host});
    }
  }
  return all;
}

void check_arguments_one_at_a_time(const SearchedOp& op, Report& report, const Options& options) {
  using Outcome = Trial::Outcome;
  const std::vector<Variation> all = variations_of(op);
  for (const Target& target : targets(op, report.backend, options.device)) {
    Trial trial(op, target, report);
    std::vector<CallForm> bases = taken_seeds(op, target);
    if (bases.empty()) continue;
    // What is wrong with a call, and which of its inputs it does not read.
    const auto wrong_with = [&](const CallForm& form) {
      const std::string wrong = trial.wrong(), ignored = trial.ignored(form);
      return (ignored.empty() ? "" : "ignores " + ignored + "; ") + wrong;
    };
    for (const CallForm& base : bases) {
      if (trial(base) == Outcome::wrong)
        report.failures.push_back(describe(target) + ": " + wrong_with(base));
    }
    std::vector<Finding> findings(all.size());
    const auto attempt = [&](std::size_t i, const CallForm& form) {
      switch (trial(form)) {
        case Outcome::right: findings[i].right = true; break;
        case Outcome::wrong: findings[i].wrong = wrong_with(form); break;
        case Outcome::refused:
          if (findings[i].refused.empty()) findings[i].refused = trial.reason();
          break;
        case Outcome::invalid: break;
      }
    };
    const auto is_tried = [&](std::size_t i) {
      return options.argument.empty() || all[i].name == options.argument;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_tried(i)) continue;
      for (const CallForm& base : bases) {
        if (findings[i].wrong.empty()) attempt(i, varied(op, base, all[i]));
      }
    }
    // What was refused may be taken where another argument, or another size, is different, too.
    const auto is_size = [&](std::size_t i) {
      return find_argument(op.op().arguments, all[i].name) == nullptr;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_tried(i)) continue;
      for (std::size_t other = 0; other < all.size(); ++other) {
        if (findings[i].right || !findings[i].wrong.empty()) break;
        if (all[other].name == all[i].name || is_size(other) != is_size(i)) continue;
        attempt(i, varied(op, varied(op, bases.front(), all[other]), all[i]));
      }
    }
    std::set<std::string> told;  // one line an argument
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string line = describe(target) + ": " + all[i].text() + ": ";
      if (!findings[i].wrong.empty()) {
        if (told.insert(all[i].name).second) report.failures.push_back(line + findings[i].wrong);
      } else if (!findings[i].right && !findings[i].refused.empty()) {
        report.refusals.push_back(line + findings[i].refused);
      } else if (!findings[i].right && is_tried(i)) {
        report.not_shown.push_back(line + "no valid call was found");
      }
    }
  }
}

void check_arguments_together(const SearchedOp& op, Report& report, const Options& options) {
  constexpr int calls = 40;
  constexpr float share = 0.25f;
  std::vector<Variation> all = variations_of(op);
  std::erase_if(all,
                [&](const Variation& one) { return find_argument(op.op().arguments, one.name) == nullptr; });
  for (const Target& target : targets(op, report.backend, options.device)) {
    Trial trial(op, target, report);
    const std::vector<CallForm> bases = taken_seeds(op, target);
    cases::Random random(23);
    for (int call = 0; call < calls && !bases.empty(); ++call) {
      CallForm form = bases[static_cast<std::size_t>(call) % bases.size()];
      // A value that is refused in this company is left out again.
      for (const Variation& variation : all) {
        if (!random.chance(share)) continue;
        CallForm next = varied(op, form, variation);
        const MadeCall made(op, next);
        if (is_valid(op, made) && op.ask(target, made.args()).takes()) form = std::move(next);
      }
      if (trial(form) == Trial::Outcome::wrong && report.failures.size() < 10)
        report.failures.push_back(describe(target) + ": " + trial.wrong());
    }
  }
}

}  // namespace fla::conformance
