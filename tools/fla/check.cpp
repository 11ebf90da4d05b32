#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/case.h"
#include "tools/fla/chosen_backend.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

struct CheckOptions {
  std::vector<std::string> files;
  std::string backend, device = "cpu";
  bool backward = false, json = false;
};

/// What one backend's one function made of one file.
struct Row {
  std::string file, op, function, backend, device;
  double tolerance = 0;
  std::map<std::string, double> errors;
  std::string failure;

  bool ok() const {
    return failure.empty() &&
           std::ranges::all_of(errors, [&](const auto& each) { return each.second <= tolerance; });
  }
};

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json{{"file", row.file},           {"op", row.op},
                              {"function", row.function},   {"backend", row.backend},
                              {"device", row.device},       {"ok", row.ok()},
                              {"tolerance", row.tolerance}, {"errors", nlohmann::ordered_json::object()}};
  for (const auto& [name, error] : row.errors) {
    json["errors"][name] =
        std::isfinite(error) ? nlohmann::ordered_json(error) : nlohmann::ordered_json(nullptr);
  }
  if (!row.failure.empty()) json["failure"] = row.failure;
  return json;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

/// A case this small is given to every function of its op; a larger one to the function that a call would
/// take.
constexpr std::int64_t kSmallElements = std::int64_t{1} << 21;

std::vector<std::string_view> functions_to_check(const cases::Case& call) {
  std::int64_t elements = 0;
  for (const cases::NamedTensor& argument : call.tensors) elements += argument.tensor.numel();
  if (elements <= kSmallElements) return {call.op->functions.begin(), call.op->functions.end()};
  return {call.op->front_door(call.args.get())};
}

std::vector<std::string> backends_to_check(const cases::Case& call, std::string_view function,
                                           const std::string& wanted) {
  // The function that a call would take must work there; another one may be missing.
  if (wanted == kOriginal || (!wanted.empty() && function == call.op->front_door(call.args.get())))
    return {wanted};
  const ScopedPolicy scope(policy_for(call.op->name, wanted));
  std::vector<std::string> names = backends_that_take(call.op->explain(function, call.args.get()));
  if (wanted.empty()) {
    names.insert(names.begin(), std::string(kOriginal));
  } else {
    std::erase_if(names, [&](const std::string& name) { return name != wanted; });
  }
  return names;
}

const TensorView& first_tensor(const cases::Case& call) {
  return call.op->arguments.front().tensor(static_cast<const void*>(call.args.get()));
}

/// How far off results may be: by the inputs' dtype, or by the backend's precision where that is coarser.
double tolerance_of(const cases::Case& call, std::string_view backend, bool backward) {
  const auto tolerance = backward ? &cases::gradient_tolerance : &cases::tolerance;
  double allowed = tolerance(first_tensor(call).dtype());
  for (const OpStatus& op : ops()) {
    if (op.name != call.op->name) continue;
    for (const BackendStatus& status : op.backends) {
      if (status.info.name == backend) allowed = std::max(allowed, tolerance(status.info.precision));
    }
  }
  return allowed;
}

Row check_one(const cases::Case& call, std::string_view function, const std::string& backend, bool backward) {
  Row row{.file = call.file,
          .op = std::string(call.op->name),
          .function = std::string(function),
          .backend = backend,
          .device = to_string(first_tensor(call).device()),
          .tolerance = tolerance_of(call, backend, backward),
          .errors = {},
          .failure = {}};
  const ScopedPolicy scope(policy_for(row.op, backend));
  std::vector<cases::NamedTensor> results;
  try {
    results = on_host(cases::run(call, function));
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    row.failure = error.what();
    return row;
  }
  for (const cases::NamedTensor& expected : call.expected) {
    const auto result = std::ranges::find(results, expected.name, &cases::NamedTensor::name);
    if (result == results.end()) {
      row.failure = "returned no " + expected.name;
      return row;
    }
    if (!std::ranges::equal(result->tensor.shape(), expected.tensor.shape())) {
      throw cases::FileError(call.file, "expect." + expected.name,
                             "expected shape " + shape_text(result->tensor.shape()) + ", got " +
                                 shape_text(expected.tensor.shape()));
    }
    row.errors[expected.name] = cases::relative_error(result->tensor, expected.tensor);
  }
  return row;
}

cases::Case read_checkable(const std::string& file, Device device, bool backward) {
  cases::Case call =
      cases::read_case(file, "", device, backward ? cases::Direction::backward : cases::Direction::forward);
  if (call.expected.empty())
    throw cases::FileError(file, std::string("expected ") + (backward ? "expect.d*" : "expect.*") +
                                     " tensors to compare with, got none");
  for (const cases::NamedTensor& expected : call.expected) {
    if (!kFloatTypes.contains(expected.tensor.dtype())) {
      throw cases::FileError(
          file, "expect." + expected.name,
          "expected dtype bf16, f16 or f32, got " + std::string(name_of(expected.tensor.dtype())));
    }
  }
  cases::validate(call);
  return call;
}

void report_ignored(const cases::Case& call, bool backward) {
  for (const std::string& warning : call.warnings) complain("warning: " + call.file + ": " + warning);
  if (!backward && !call.of_other_direction.empty())
    complain("note: " + call.file + ": gradients are not compared without --backward");
  if (call.not_compared.empty()) return;
  std::string names;
  for (const std::string& name : call.not_compared) names += (names.empty() ? "" : ", ") + name;
  complain("note: " + call.file + ": no function returns " + cases::printable_excerpt(names) +
           "; not compared");
}

ExitCode check(const CheckOptions& options) {
  const Device device = parse_present_device(options.device);
  ExitCode code = kDone;
  const auto worsen = [&code](ExitCode other) { code = std::max(code, other); };
  TextTable table = options.backward
                        ? TextTable({"file", "function", "backend", "worst", "", "tolerance", ""})
                        : TextTable({"file", "function", "backend", "o", "final_state", "tolerance", ""});
  bool any = false;
  for (const std::string& file : options.files) {
    // A bad file does not keep the others from being checked.
    try {
      const cases::Case call = read_checkable(file, device, options.backward);
      report_ignored(call, options.backward);
      for (const std::string_view function : functions_to_check(call)) {
        for (const std::string& backend : backends_to_check(call, function, options.backend)) {
          const Row row = check_one(call, function, backend, options.backward);
          any = true;
          if (!row.failure.empty()) {
            complain(row.file + ": " + row.op + "." + row.function + " on " + row.backend +
                     " failed: " + row.failure);
            worsen(kBackendFailed);
          } else if (!row.ok()) {
            worsen(kOutOfTolerance);
          }
          if (options.json) {
            std::cout << json_line(to_json(row)) << '\n' << std::flush;
            continue;
          }
          const auto error = [&row](const char* name) {
            const auto found = row.errors.find(name);
            return found == row.errors.end() ? "-" : short_number(found->second);
          };
          const auto worst =
              std::ranges::max_element(row.errors, {}, [](const auto& each) { return each.second; });
          const bool has_worst = options.backward && worst != row.errors.end();
          table.add(
              {row.file, row.function, row.backend,
               options.backward ? (has_worst ? worst->first : "-") : error("o"),
               options.backward ? (has_worst ? short_number(worst->second) : "-") : error("final_state"),
               short_number(row.tolerance),
               row.ok()              ? "ok"
               : row.failure.empty() ? "OUT OF TOLERANCE"
                                     : "FAILED"});
        }
      }
    } catch (const cases::FileError& error) {
      complain(error.what());
      worsen(kBadInput);
    }
  }
  if (!options.json && any) std::cout << table.text();
  return code;
}

}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "check", "runs case files on the original kernel and every backend that takes them, and compares");
  auto options = std::make_shared<CheckOptions>();
  command->add_option("files", options->files, "case files with expect.* tensors")->required();
  command->add_option("--backend", options->backend,
                      "this backend alone; 'original' for the original kernel");
  command->add_option("--device", options->device, "where they run: cpu, cuda or cuda:N");
  command->add_flag("--backward", options->backward, "the ops' gradients instead, against expect.d*");
  command->add_flag("--json", options->json, "print JSON, one object a line");
  command->callback([&chosen, options] { chosen = [options] { return check(*options); }; });
}

}  // namespace fla::command
