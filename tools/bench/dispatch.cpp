// What the dispatch costs. Every benchmark makes the same call, on the same arguments, of a kernel that does
// nothing; `direct` calls that kernel itself, and what the others take more is the price of choosing.
//
//   direct           the kernel, called as a function
//   second_of_three  three backends, the first refuses, the second accepts
//   all_refuse       three backends, all refuse, the original kernel runs
//   disabled         dispatch is disabled
//   plan             the choice was made before
//   rules_20         as second_of_three, with a config file of 20 rules for the op of which the last holds
//   kda_validate     what fla::chunk_kda does before any of that: its arguments are checked
//
// The file is loaded while all of them run.

#include "fla/dispatch/call/dispatch.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tools/cases/random_case.h"

namespace fla::bench {

/// kda's arguments, wrapped: kda's own validation, which is measured apart, does not apply.
struct CallArgs {
  using Result = int;  // an empty result: even zeroing a KdaResult would be work of the kernel's own
  KdaArgs kda;

  /// For rules: the table finds kda's arguments at the beginning of these.
  static ArgumentTable arguments() { return KdaArgs::arguments(); }
};
static_assert(offsetof(CallArgs, kda) == 0);

__attribute__((noinline)) int empty_kernel(const CallArgs& args) {
  benchmark::DoNotOptimize(&args);
  return 0;
}

// Three ops with the same function, so that each keeps its own three backends.
namespace second {
namespace original {
int call(const CallArgs& args);
}
DISPATCH("bench_second_of_three", int, call, const CallArgs& args) { return empty_kernel(args); }
}  // namespace second

namespace ruled {
namespace original {
int call(const CallArgs& args);
}
DISPATCH("bench_rules_20", int, call, const CallArgs& args) { return empty_kernel(args); }
}  // namespace ruled

namespace refusing {
namespace original {
int call(const CallArgs& args);
}
DISPATCH("bench_all_refuse", int, call, const CallArgs& args) { return empty_kernel(args); }
}  // namespace refusing

class CallBackend : public BaseBackend {
 public:
  virtual int call(const CallArgs& args) = 0;
  virtual Verdict call_verifier(const CallArgs& args) const = 0;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(CallBackend, Type, call)};
  }
};

/// What a real verifier looks at, with one condition that this call meets or not: the lower bound of V. The
/// check that refuses stands last, so that a refusal costs as much as it can.
Verdict check(const KdaArgs& args, std::int64_t least_v) {
  FLA_REFUSE_IF(!args.q.device().is_cpu(), "requires a CPU tensor, got {}", args.q.device());
  for (const TensorView* tensor : {&args.q, &args.k, &args.v}) {
    FLA_REFUSE_IF(!kFloatTypes.contains(tensor->dtype()), "requires q, k, v in bf16, f16 or f32, got {}",
                  tensor->dtype());
    FLA_REFUSE_IF(tensor->stride(3) != 1, "requires channels next to each other, got stride {}",
                  tensor->stride(3));
  }
  FLA_REFUSE_IF(args.g.dtype() != DType::f32 && args.g.dtype() != args.q.dtype(),
                "requires g in f32 or like q, got {}", args.g.dtype());
  FLA_REFUSE_IF(args.g.stride(3) != 1, "requires channels of g next to each other, got stride {}",
                args.g.stride(3));
  FLA_REFUSE_IF(args.beta.dtype() != DType::f32 && args.beta.dtype() != args.q.dtype(),
                "requires beta in f32 or like q, got {}", args.beta.dtype());
  const std::int64_t K = args.q.size(3), V = args.v.size(3);
  FLA_REFUSE_IF(K % 8 != 0 || K > 256, "requires K up to 256 and a multiple of 8, got {}", K);
  if (args.initial_state.defined()) {
    FLA_REFUSE_IF(args.initial_state.dtype() != DType::f32, "requires a state in f32, got {}",
                  args.initial_state.dtype());
    FLA_REFUSE_IF(args.initial_state.stride(3) != 1, "requires rows of the state next to each other");
  }
  FLA_REFUSE_IF(args.state_v_first, "requires states [K, V]");
  FLA_REFUSE_IF(args.use_gate_in_kernel && !args.lower_bound,
                "requires lower_bound with a gate in the kernel");
  FLA_REFUSE_IF(V < least_v, "requires V of at least {}, got {}", least_v, V);
  return accept();
}

template <int kPriority>
class Accepting final : public CallBackend {
 public:
  BackendInfo info() const override {
    return {"bench_accepting", "nothing", "FLA_BENCH_ACCEPTING", true, kPriority, "accepts"};
  }
  int call(const CallArgs& args) override { return empty_kernel(args); }
  Verdict call_verifier(const CallArgs& args) const override { return check(args.kda, 1); }
};

template <int kPriority>
class Refusing final : public CallBackend {
 public:
  static constexpr std::string_view kNames[] = {"bench_refusing_1", "bench_refusing_2", "bench_refusing_3"};
  static constexpr std::string_view kToggles[] = {"FLA_BENCH_REFUSING_1", "FLA_BENCH_REFUSING_2",
                                                  "FLA_BENCH_REFUSING_3"};
  BackendInfo info() const override {
    return {kNames[kPriority - 1], "nothing", kToggles[kPriority - 1], true, kPriority, "refuses"};
  }
  int call(const CallArgs& args) override { return empty_kernel(args); }
  Verdict call_verifier(const CallArgs& args) const override { return check(args.kda, 512); }
};

const CallArgs& arguments() {
  static const cases::KdaCase made =
      cases::make_kda_case({.T = 1, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16});
  static const CallArgs args{made.args};
  return args;
}

/// 20 rules as somebody would write them; the call meets the last.
std::string rules() {
  std::string text;
  const auto add = [&text](const std::string& when) {
    text += "[[rule]]\nop = \"bench_rules_20\"\nwhen = \"" + when +
            "\"\norder = [\"bench_refusing_1\", \"bench_accepting\", \"bench_refusing_3\"]\n";
  };
  for (int i = 0; i < 6; ++i) {
    const std::string length = std::to_string(64 << i), channels = std::to_string(32 << (i % 3));
    add("T < " + length + " and T >= 8 and K == " + channels + " and device == 'cpu'");
    add("T >= " + length + " and dtype in ['bf16', 'f16'] and V <= " + channels + " and not varlen");
    add("H > " + std::to_string(1 << i) +
        " and varlen and (use_gate_in_kernel or T == " + std::to_string(i + 2) + ")");
  }
  add("dtype == 'f32' and T < 4096 and not varlen");
  add("T == 1 and K == 128 and dtype == 'bf16' and device == 'cpu' and not varlen");
  return text;
}

template <class Call>
void repeat(benchmark::State& state, Call&& call) {
  const CallArgs* args = &arguments();
  for (auto _ : state) {
    benchmark::DoNotOptimize(args);
    benchmark::DoNotOptimize(call(*args));
  }
}

void direct(benchmark::State& state) {
  int (*kernel)(const CallArgs&) = second::call_kernel;  // the braces behind DISPATCH, as a plain function
  benchmark::DoNotOptimize(kernel);
  repeat(state, kernel);
}
void second_of_three(benchmark::State& state) { repeat(state, second::call); }
void rules_20(benchmark::State& state) { repeat(state, ruled::call); }
void all_refuse(benchmark::State& state) { repeat(state, refusing::call); }

void disabled(benchmark::State& state) {
  set_policy({.disable_dispatch = true});
  repeat(state, second::call);
  set_policy({});
}

void plan(benchmark::State& state) { repeat(state, fla::plan("bench_second_of_three", "call", arguments())); }

void kda_validate(benchmark::State& state) {
  const KdaArgs* args = &arguments().kda;
  for (auto _ : state) {
    benchmark::DoNotOptimize(args);
    validate_arguments(*args);
  }
}

struct Bar {
  const char* name;
  const char* more_than;
  double most_ns;
};
constexpr Bar kBars[] = {{"second_of_three", "direct", 25},
                         {"all_refuse", "direct", 35},
                         {"disabled", "direct", 3},
                         {"plan", "direct", 3},
                         {"rules_20", "second_of_three", 30}};

/// The usual table, and then what each way adds to a direct call, or to another way.
class Reporter : public benchmark::ConsoleReporter {
 public:
  Reporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && !run.error_occurred) {
        times_[run.run_name.function_name].push_back(run.GetAdjustedRealTime());
      }
    }
  }

  void print_bars() {
    if (median("direct") == 0) return;
    std::printf("\nadded to a direct call, medians:\n");
    for (const Bar& bar : kBars) {
      if (median(bar.name) == 0 || median(bar.more_than) == 0) continue;
      const double added = median(bar.name) - median(bar.more_than);
      const std::string base =
          std::string_view(bar.more_than) == "direct" ? "" : std::string(" to ") + bar.more_than;
      std::printf("  %-16s %6.1f ns%s, at most %2.0f: %s\n", bar.name, added, base.c_str(), bar.most_ns,
                  added <= bar.most_ns ? "ok" : "OVER");
    }
  }

 private:
  double median(const std::string& name) {
    std::vector<double>& times = times_[name];
    if (times.empty()) return 0;
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  std::map<std::string, std::vector<double>> times_;
};

/// A config file that is in force while the object lives.
class LoadedConfig {
 public:
  explicit LoadedConfig(const std::string& text) {
    std::string folder = (std::filesystem::temp_directory_path() / "fla_bench.XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
    const std::filesystem::path file = folder_ / "rules.toml";
    std::ofstream(file) << text;
    ::setenv("FLA_CONFIG", file.c_str(), 1);
    reload_environment();
  }
  ~LoadedConfig() {
    ::unsetenv("FLA_CONFIG");
    reload_environment();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  LoadedConfig(const LoadedConfig&) = delete;
  LoadedConfig& operator=(const LoadedConfig&) = delete;

 private:
  std::filesystem::path folder_;
};

int main(int argc, char** argv) {
  const auto first = register_backend("bench_second_of_three", std::make_unique<Refusing<1>>());
  const auto accepting = register_backend("bench_second_of_three", std::make_unique<Accepting<2>>());
  const auto third = register_backend("bench_second_of_three", std::make_unique<Refusing<3>>());
  const auto one = register_backend("bench_all_refuse", std::make_unique<Refusing<1>>());
  const auto two = register_backend("bench_all_refuse", std::make_unique<Refusing<2>>());
  const auto three = register_backend("bench_all_refuse", std::make_unique<Refusing<3>>());
  const auto ruled_first = register_backend("bench_rules_20", std::make_unique<Refusing<1>>());
  const auto ruled_accepting = register_backend("bench_rules_20", std::make_unique<Accepting<2>>());
  const auto ruled_third = register_backend("bench_rules_20", std::make_unique<Refusing<3>>());
  const LoadedConfig config(rules());
  if (explain("bench_rules_20", "call", arguments()).rule.empty()) throw std::runtime_error("no rule holds");

  benchmark::RegisterBenchmark("direct", direct);
  benchmark::RegisterBenchmark("second_of_three", second_of_three);
  benchmark::RegisterBenchmark("all_refuse", all_refuse);
  benchmark::RegisterBenchmark("disabled", disabled);
  benchmark::RegisterBenchmark("plan", plan);
  benchmark::RegisterBenchmark("rules_20", rules_20);
  benchmark::RegisterBenchmark("kda_validate", kda_validate);

  // Interleaved repetitions, so that a clock that changes changes all alike; what the caller says comes later
  // and wins.
  std::vector<std::string> words{argv[0], "--benchmark_enable_random_interleaving=true",
                                 "--benchmark_repetitions=9", "--benchmark_min_time=0.05",
                                 "--benchmark_report_aggregates_only=false"};
  bool own_format = false;
  for (int i = 1; i < argc; ++i) {
    words.emplace_back(argv[i]);
    own_format = own_format || words.back().starts_with("--benchmark_format");
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  if (own_format) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    Reporter reporter;
    benchmark::RunSpecifiedBenchmarks(&reporter);
    reporter.print_bars();
  }
  benchmark::Shutdown();
  return 0;
}

}  // namespace fla::bench

int main(int argc, char** argv) { return fla::bench::main(argc, argv); }
