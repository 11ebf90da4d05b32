#include "tools/fla/bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <thread>

#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "tools/cases/atomic_file.h"
#include "tools/cases/with_op.h"
#include "tools/fla/bench_cuda.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/machine.h"
#include "tools/fla/peers.h"
#include "tools/fla/synthetic_call.h"

namespace fla::command {
namespace {

struct BenchOptions {
  std::string op, device = "cpu", suite, gates = "random", function, html;
  std::vector<std::string> shapes, cases, dtypes, state_dtypes, backends, options;
  std::vector<int> threads;
  int repetitions = 0;
  std::optional<double> seconds;
  bool backward = false, json = false;

  bool has_case(const std::string& name) const {
    if (cases.empty()) return !backward || name == "prefill";  // nobody trains on single tokens
    return std::ranges::count(cases, name) > 0;
  }
};

std::vector<BenchCase> default_cases() {
  return {{"prefill", parse_recurrence_shape("B=1,T=512,H=8,K=128,V=128")},
          {"decode", parse_recurrence_shape("B=64,T=1,H=32,K=128,V=128")}};
}

std::vector<BenchCase> cases_for(const BenchOptions& options) {
  std::vector<BenchCase> cases;
  for (const std::string& shape : options.shapes) cases.push_back({shape, parse_recurrence_shape(shape)});
  if (!cases.empty()) return cases;
  for (const BenchCase& each : default_cases()) {
    if (options.has_case(each.name)) cases.push_back(each);
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

std::vector<DType> dtypes_from(const std::vector<std::string>& names, DType otherwise) {
  std::vector<DType> types;
  for (const std::string& name : names) types.push_back(parse_dtype(name));
  return types.empty() ? std::vector{otherwise} : types;
}

cases::DataKind data_from(const std::string& name) {
  if (const auto data = cases::data_kind_from_name(name)) return *data;
  std::string names;
  for (const cases::DataKind data : cases::kAllDataKinds) {
    names += (names.empty() ? "" : ", ") + std::string(cases::name_of(data));
  }
  throw InvalidArgument("gates", "expected one of " + names + ", got '" + name + "'");
}

/// Throws InvalidArgument for an option that was given and means nothing on this device.
void refuse_unless_default(bool is_default, const char* option, const char* device) {
  if (!is_default) throw InvalidArgument(option, std::string("is for --device ") + device);
}

BenchRequest request_from(const BenchOptions& options) {
  refuse_unless_default(options.suite.empty(), "suite", "cuda");
  refuse_unless_default(options.state_dtypes.empty(), "state-dtype", "cuda");
  BenchRequest request;
  request.op = options.op;
  request.cases = cases_for(options);
  request.dtypes = dtypes_from(options.dtypes, DType::f32);
  request.threads = options.threads.empty() ? default_threads() : options.threads;
  request.gates = data_from(options.gates);
  request.function = options.function;
  request.backward = options.backward;
  request.backends = options.backends;
  request.options = parse_settings(options.options, "1");
  request.repetitions = options.repetitions;
  request.seconds = options.seconds.value_or(request.seconds);
  return request;
}

/// A case by its shape; N packed sequences are about equally long.
CudaCase cuda_case(const std::string& shape, DType state_dtype) {
  CudaCase made{.name = shape, .sizes = parse_recurrence_shape(shape), .state_dtype = state_dtype};
  const std::int64_t packed = made.sizes[Axis::N], T = made.sizes[Axis::T];
  for (std::int64_t i = 0; i < packed; ++i) made.lengths.push_back((i + 1) * T / packed - i * T / packed);
  return made;
}

/// Whether states are [V, K], if an option says so.
std::optional<bool> layout_from(const Settings& settings) {
  std::optional<bool> v_first;
  for (const auto& [name, value] : settings) {
    if (name == "state_v_first") v_first = value == "1";
  }
  return v_first;
}

std::vector<CudaCase> cuda_cases_for(const BenchOptions& options, const Settings& settings) {
  const std::vector<DType> states = dtypes_from(options.state_dtypes, DType::f32);
  const std::optional<bool> v_first = layout_from(settings);
  std::vector<CudaCase> list;
  for (const std::string& shape : options.shapes) {
    for (const DType state : states) list.push_back(cuda_case(shape, state));
  }
  if (options.shapes.empty() && options.has_case("prefill")) {
    list = options.suite.empty() ? std::vector{cuda_case("T=8192,H=32,K=128", DType::f32)}
           : options.backward    ? peers_backward(options.op, options.gates)
                                 : peers_forward(options.op, options.gates);
    if (options.suite.empty()) list.front().name = "prefill";
  }
  for (CudaCase& each : list) each.state_v_first = v_first.value_or(false);
  if (!options.shapes.empty() || !options.has_case("decode")) return list;
  for (CudaCase& each : peers_decode()) {
    if (options.suite.empty() || options.op != "kda") each.published.clear();
    const bool wanted = options.state_dtypes.empty() || std::ranges::count(states, each.state_dtype) > 0;
    if (wanted && each.state_v_first == v_first.value_or(each.state_v_first)) list.push_back(std::move(each));
  }
  return list;
}

CudaBenchRequest cuda_request_from(const BenchOptions& options, Device device) {
  refuse_unless_default(options.threads.empty(), "threads", "cpu");
  CudaBenchRequest request;
  request.op = options.op;
  request.device = device;
  request.options = parse_settings(options.options, "1");
  request.cases = cuda_cases_for(options, request.options);
  request.dtypes = dtypes_from(options.dtypes, DType::bf16);
  request.data = data_from(options.gates);
  request.function = options.function;
  request.backward = options.backward;
  request.backends = options.backends;
  request.repetitions = options.repetitions;
  request.seconds = options.seconds.value_or(request.seconds);
  return request;
}

/// "2026-01-31 12:00 UTC"
std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

/// Runs the benchmark, with its progress shown, and prints what it found.
template <class Request>
auto print(const BenchOptions& options, const Request& request, Device device) {
  const auto report = [&request] {
    Progress progress(bench_steps(request));
    return run_bench(request, progress);
  }();
  const nlohmann::ordered_json machine = machine_facts(device);
  nlohmann::ordered_json json = to_json(report, machine);
  json["date"] = now_as_text();
  if (!options.html.empty()) {
    cases::AtomicFile page(options.html);
    page.write(to_html(json));
    page.commit();
  }
  std::cout << (options.json ? json_line(json) + "\n" : to_text(report, machine));
  return report;
}

/// Throws InvalidArgument for a suite that has no calls.
void refuse_suite_without_calls(const BenchOptions& options) {
  if (options.suite.empty()) return;
  if (peers_forward(options.op, options.gates).empty()) {
    throw InvalidArgument(
        "suite", "expected kda or gated_delta_rule, which peers have published times of, got " + options.op);
  }
  if (options.backward && std::ranges::count(options.cases, "decode") > 0)
    throw InvalidArgument("case",
                          "expected prefill, whose gradients peers have published times of, got decode");
}

ExitCode bench(const BenchOptions& options) {
  cases::with_op(options.op, [](auto) {});
  refuse_suite_without_calls(options);
  const Device device = parse_present_device(options.device);
  if (!options.html.empty()) cases::AtomicFile::check_writable(options.html);
  if (device.is_cpu()) {
    static_cast<void>(print(options, request_from(options), device));
    return kDone;
  }
  const CudaBenchRequest request = cuda_request_from(options, device);
  const CudaBenchReport report = print(options, request, device);
  ExitCode code = kDone;
  for (const CudaRow& row : report.rows) {
    if (row.failure.empty()) continue;
    complain(row.of->name + " on " + row.backend + " (" + std::string(name_of(row.mode)) +
             ") failed: " + row.failure);
    code = kBackendFailed;
  }
  return code;
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "times every backend that accepts, side by side, in one run");
  auto options = std::make_shared<BenchOptions>();
  command->add_option("op", options->op, "the op")->required();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N");
  command
      ->add_option("--dtype", options->dtypes,
                   "of q, k, v, g and beta: f32, bf16, f16; if left out f32, on a GPU bf16")
      ->delimiter(',');
  command
      ->add_option("--state-dtype", options->state_dtypes,
                   "on a GPU, of the state: f32, bf16; if left out f32, and both for decode")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--threads", options->threads, "how many CPU threads, such as 1,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  auto* shape =
      command->add_option("--shape", options->shapes, "in place of the cases: B=1,T=512,H=8,K=128,V=128")
          ->allow_extra_args(false);
  command
      ->add_option("--suite", options->suite,
                   "peers: on a GPU, the calls that other libraries have published times of")
      ->check(CLI::IsMember({"peers"}))
      ->excludes(shape);
  command->add_option("--case", options->cases, "prefill, decode")
      ->delimiter(',')
      ->check(CLI::IsMember({"prefill", "decode"}))
      ->excludes(shape);
  command->add_option("--gates,--data", options->gates,
                      "random, bound, slow, strong, resets, repeated_keys or mixed: what the data is like");
  command->add_option("--function", options->function,
                      "the op's function; the front door's choice if left out");
  command->add_flag(
      "--backward", options->backward,
      "the backward function; errors are its worst gradient's, on the CPU against the original kernel");
  command
      ->add_option("--backend", options->backends, "these backends alone; 'original' for the original kernel")
      ->delimiter(',');
  command->add_option("--option", options->options, "an option of the op, NAME=VALUE; NAME alone sets a flag")
      ->allow_extra_args(false);
  command
      ->add_option("--reps", options->repetitions,
                   "timed repetitions of each row; as many as fit if left out")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--seconds", options->seconds, "time for each row; if left out 1, on a GPU 0.3")
      ->check(CLI::Range(0.0, 3600.0))
      ->check(CLI::Validator(
          [](const std::string& value) {  // no comparison holds for it, so that no range refuses it
            return std::isnan(std::strtod(value.c_str(), nullptr)) ? "expected a number, got " + value : "";
          },
          ""));
  command->add_option("--html", options->html, "also write a page with plots");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&chosen, options] { chosen = [options] { return bench(*options); }; });
}

}  // namespace fla::command
