#include <iostream>
#include <nlohmann/json.hpp>

#include "fla/core/json_line.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/atomic_file.h"
#include "tools/cases/case.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/settings.h"

namespace fla::command {
namespace {

struct RunOptions {
  std::string op, in, out, device = "cpu", backend, function, counters;
  std::vector<std::string> options;
  bool backward = false, json = false;
};

ExitCode run(const RunOptions& options) {
  cases::AtomicFile::check_writable(options.out);
  cases::Case call =
      cases::read_case(options.in, options.op, parse_present_device(options.device),
                       options.backward ? cases::Direction::backward : cases::Direction::forward);
  for (const auto& [name, value] : parse_settings(options.options, "1")) {
    cases::set_option(call.op->arguments, call.args.get(), name, value);
  }
  cases::give_pools(call);
  cases::validate(call);
  for (const std::string& warning : call.warnings) complain("warning: " + call.file + ": " + warning);

  const void* args = call.args.get();
  const std::string function(call.op->function_or_front_door(options.function, args));
  const ScopedPolicy scope(policy_for(call.op->name, options.backend));
  const std::string backend = call.op->explain(function, args).selected;
  const std::vector<cases::NamedTensor> results = on_host(cases::run(call, function));
  cases::write_safetensors(
      options.out, results,
      {{"op", std::string(call.op->name)}, {"function", function}, {"backend", backend}});

  if (options.counters == "json") std::cerr << counters_json() << '\n';
  if (options.counters == "prometheus") std::cerr << counters_prometheus();
  if (options.json) {
    nlohmann::ordered_json written = nlohmann::ordered_json::array();
    for (const cases::NamedTensor& result : results) written.push_back(result.name);
    std::cout << json_line(nlohmann::ordered_json{{"op", call.op->name},
                                                  {"function", function},
                                                  {"backend", backend},
                                                  {"device", to_string(parse_device(options.device))},
                                                  {"out", options.out},
                                                  {"tensors", written}})
              << '\n';
    return kDone;
  }
  std::cout << call.op->name << '.' << function << " -> " << backend << '\n';
  for (const cases::NamedTensor& result : results) {
    std::cout << options.out << ": " << result.name << ' ' << result.tensor.view().describe() << '\n';
  }
  return kDone;
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("run", "runs the call of a case file and writes its results");
  auto options = std::make_shared<RunOptions>();
  command->add_option("op", options->op, "the op")->required();
  command->add_option("--in", options->in, "the case file")->required();
  command->add_option("--out", options->out, "where the results go, a .safetensors file")->required();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N");
  command->add_option("--backend", options->backend,
                      "this backend or an error; 'original' for the original kernel");
  command->add_option("--function", options->function,
                      "the op's function; the front door's choice if left out");
  command->add_flag("--backward", options->backward,
                    "the op's gradients, from the file's do and dht: chunk_OP_backward");
  command->add_option("--option", options->options, "an option of the op, NAME=VALUE; NAME alone sets a flag")
      ->allow_extra_args(false);
  command
      ->add_option("--counters", options->counters,
                   "print on standard error who took, refused and failed the call: json or prometheus")
      ->check(CLI::IsMember({"json", "prometheus"}));
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&chosen, options] { chosen = [options] { return run(*options); }; });
}

}  // namespace fla::command
