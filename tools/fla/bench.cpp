#include "tools/fla/bench.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "fla/core/errors.h"
#include "tools/cases/atomic_file.h"
#include "tools/fla/command.h"
#include "tools/fla/machine.h"
#include "tools/fla/made_up_call.h"

namespace fla::command {
namespace {

struct Options {
  std::string op, device = "cpu", gates = "random", function, html;
  std::vector<std::string> shapes, cases, dtypes{"f32"}, backends, options;
  std::vector<int> threads;
  int repetitions = 0;
  double seconds = 1;
  bool json = false;
};

std::vector<BenchCase> default_cases() {
  return {{"prefill", parse_shape("B=1,T=512,H=8,K=128,V=128")},
          {"decode", parse_shape("B=64,T=1,H=32,K=128,V=128")}};
}

std::vector<BenchCase> cases_for(const Options& options) {
  std::vector<BenchCase> cases;
  for (const std::string& shape : options.shapes) cases.push_back({shape, parse_shape(shape)});
  if (!cases.empty()) return cases;
  for (const BenchCase& each : default_cases()) {
    if (options.cases.empty() || std::ranges::count(options.cases, each.name) > 0) cases.push_back(each);
  }
  return cases;
}

/// One and two threads, and all cores.
std::vector<int> default_threads() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<int> threads{1, 2, cores};
  std::erase_if(threads, [cores](int count) { return count > cores; });
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

BenchRequest request_from(const Options& options) {
  if (options.op != "kda") throw InvalidArgument("op", "expected kda, got '" + options.op + "'");
  if (const Device device = parse_device(options.device); !device.is_cpu()) {
    throw InvalidArgument("device",
                          "expected cpu, got " + to_string(device) + ": this build has no CUDA kernels");
  }
  BenchRequest request;
  request.cases = cases_for(options);
  for (const std::string& dtype : options.dtypes) request.dtypes.push_back(parse_dtype(dtype));
  request.threads = options.threads.empty() ? default_threads() : options.threads;
  const auto gates = cases::kda_data_from_name(options.gates);
  if (!gates) {
    std::string names;
    for (const cases::KdaData data : cases::kAllKdaData) {
      names += (names.empty() ? "" : ", ") + std::string(cases::name_of(data));
    }
    throw InvalidArgument("gates", "expected one of " + names + ", got '" + options.gates + "'");
  }
  request.gates = *gates;
  request.function = options.function;
  request.backends = options.backends;
  request.options = parse_settings(options.options, "1");
  request.repetitions = options.repetitions;
  request.seconds = options.seconds;
  return request;
}

ExitCode bench(const Options& options) {
  if (!options.html.empty()) cases::AtomicFile::check_writable(options.html);
  const BenchRequest request = request_from(options);
  const BenchReport report = [&request] {
    Progress progress(bench_steps(request));
    return bench_kda(request, progress);
  }();
  const nlohmann::ordered_json machine = machine_facts();
  const nlohmann::ordered_json json = to_json(report, machine);
  if (!options.html.empty()) {
    cases::AtomicFile page(options.html);
    page.write(to_html(json));
    page.commit();
  }
  std::cout << (options.json ? json.dump() + "\n" : to_text(report, machine));
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "times every backend that accepts, side by side, in one run");
  auto options = std::make_shared<Options>();
  command->add_option("op", options->op, "the op")->required();
  command->add_option("--device", options->device, "cpu");
  command->add_option("--dtype", options->dtypes, "of q, k, v, g and beta: f32, bf16, f16")->delimiter(',');
  command->add_option("--threads", options->threads, "how many CPU threads, such as 1,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  auto* shape =
      command->add_option("--shape", options->shapes, "in place of the cases: B=1,T=512,H=8,K=128,V=128")
          ->allow_extra_args(false);
  command->add_option("--case", options->cases, "prefill, decode")
      ->delimiter(',')
      ->check(CLI::IsMember({"prefill", "decode"}))
      ->excludes(shape);
  command->add_option("--gates", options->gates,
                      "random, bound, slow, strong, resets, repeated_keys or mixed: what the data is like");
  command->add_option("--function", options->function,
                      "the op's function; the front door's choice if left out");
  command
      ->add_option("--backend", options->backends, "these backends alone; 'original' for the original kernel")
      ->delimiter(',');
  command->add_option("--option", options->options, "an option of the op, NAME=VALUE; NAME alone sets a flag")
      ->allow_extra_args(false);
  command
      ->add_option("--reps", options->repetitions,
                   "timed repetitions of each row; as many as fit if left out")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--seconds", options->seconds, "time for each row")->check(CLI::Range(0.0, 3600.0));
  command->add_option("--html", options->html, "also write a page with plots");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&chosen, options] { chosen = [options] { return bench(*options); }; });
}

}  // namespace fla::command
