#include "tools/conformance/stage_checks.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"
#include "tools/conformance/argument_search.h"
#include "tools/conformance/causality_check.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/range_check.h"
#include "tools/conformance/searched_stages.h"
#include "tools/conformance/stage_reference.h"

namespace fla::conformance {
namespace {

/// A call of one stage, with the memory of its inputs.
template <class Args>
struct StageCall {
  std::string function;
  Args args;
  TensorView Args::*input;
  std::vector<Tensor> memory;

  std::string describe() const {
    std::string text = function;
    for (const Argument& argument : Args::arguments()) {
      if (argument.is_tensor() && argument.tensor(&args).defined())
        text += " " + std::string(argument.name) + "=" + argument.tensor(&args).describe();
      if (argument.kind == ArgumentKind::number && argument.number(&args))
        text += " " + std::string(argument.name) + "=" + std::to_string(*argument.number(&args));
    }
    return text;
  }
};

Tensor random_tensor(std::initializer_list<std::int64_t> shape, DType dtype, float scale,
                     cases::Random& random) {
  Tensor tensor = Tensor::empty(shape, dtype);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    cases::store(tensor, i, scale * random.normal());
  }
  return tensor;
}

struct Sizes {
  std::int64_t B, T, heads, width;
};
constexpr Sizes kSizes[] = {{1, 64, 1, 16}, {1, 64, 1, 128}, {2, 7, 3, 64}, {1, 1, 4, 32}, {1, 33, 2, 5}};

/// Calls body(call) for calls of every stage: those that kda's kernels make, and others.
template <class Body>
void for_each_call(Body&& body) {
  cases::Random random(11);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [B, T, heads, width] : kSizes) {
      const Tensor x = random_tensor({B, T, heads, width}, dtype, 2, random);
      body(StageCall<L2NormArgs>{"l2_norm", {.x = x}, &L2NormArgs::x, {x}});

      const Tensor rate = random_tensor({heads}, DType::f32, 1, random),
                   bias = random_tensor({heads, width}, dtype, 1, random);
      for (const GateArgs& args :
           {GateArgs{.g = x, .A_log = rate}, GateArgs{.g = x, .A_log = rate, .dt_bias = bias},
            GateArgs{.g = x, .lower_bound = -5.0f},
            GateArgs{.g = x, .lower_bound = -40.0f, .A_log = rate, .dt_bias = bias}}) {
        body(StageCall<GateArgs>{"gate", args, &GateArgs::g, {x, rate, bias}});
      }
      if (width > 64) continue;
      const Tensor A = random_tensor({B, T, heads, width}, dtype, 0.3f, random);
      body(StageCall<SolveTrilArgs>{"solve_tril", {.A = A}, &SolveTrilArgs::A, {A}});
    }
  }
}

/// A call at the backend that a report is about, and nowhere else.
template <class Args>
class StageTarget {
 public:
  StageTarget(Report& report, const StageCall<Args>& call) : report_(report), call_(call) {}

  Answer ask(const Args& args) const {
    if (report_.backend == "original") return {"selected", "", ""};
    const ScopedPolicy policy(only("common", report_.backend));
    for (const Explanation::Row& row : explain("common", call_.function, args).rows) {
      if (row.name == report_.backend) return {row.state, row.reason, row.place};
    }
    return {"absent", "", ""};
  }

  /// Asks; counts what is refused.
  bool takes(const Args& args) const {
    const bool taken = ask(args).takes();
    ++(taken ? report_.calls : report_.refused);
    return taken;
  }

  Tensor run(const Args& args) const {
    const ScopedPolicy policy(only("common", report_.backend));
    return call("common." + call_.function, args).out;
  }

  void expect(bool holds, const std::string& what) const {
    if (!holds && report_.failures.size() < kMostFailures)
      report_.failures.push_back(what + " [" + call_.describe() + "]");
  }

 private:
  Report& report_;
  const StageCall<Args>& call_;
};

/// Runs body(call, target) for the calls that the backend takes.
template <class Body>
void for_each_taken(Report& report, Body&& body) {
  for_each_call([&]<class Args>(const StageCall<Args>& call) {
    const StageTarget<Args> target(report, call);
    if (target.takes(call.args)) body(call, target);
  });
  if (report.calls == 0)
    report.failures.push_back("took none of " + std::to_string(report.refused) + " calls");
}

std::string too_far(const Tensor& out, const std::vector<double>& exact) {
  const double error = cases::relative_error(out, exact), limit = cases::tolerance(DType::f32);
  return error <= limit ? ""
                        : "out is off by " + std::to_string(error) + ", allowed " + std::to_string(limit);
}

void check_random(Report& report, const Options&) {
  for_each_taken(report, []<class Args>(const StageCall<Args>& call, const StageTarget<Args>& target) {
    const Tensor out = target.run(call.args);
    target.expect(out.dtype() == DType::f32, "gives another dtype than f32");
    const std::string wrong = too_far(out, stage_reference(call.args));
    target.expect(wrong.empty(), wrong);
  });
}

void check_same_bits_twice(Report& report, const Options&) {
  for_each_taken(report, []<class Args>(const StageCall<Args>& call, const StageTarget<Args>& target) {
    const std::vector<std::byte> first = bytes_of(target.run(call.args));
    target.expect(bytes_of(target.run(call.args)) == first, "other bits the second time");
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      target.expect(bytes_of(target.run(call.args)) == first,
                    "other bits on " + std::to_string(threads) + " threads");
    }
    set_num_threads(0);
  });
}

void check_same_bits_in_any_batch(Report& report, const Options&) {
  for_each_taken(report, []<class Args>(const StageCall<Args>& call, const StageTarget<Args>& target) {
    const TensorView& all = call.args.*call.input;
    const Tensor together = target.run(call.args);
    for (std::int64_t batch = 0; batch < all.size(0); ++batch) {
      Args one = call.args;
      one.*call.input = all.slice(0, batch, 1);
      if (!target.takes(one)) continue;
      target.expect(same_bytes(target.run(one), together.view().slice(0, batch, 1)),
                    "batch " + std::to_string(batch) + " has other bits alone");
    }
  });
}

void check_poison_around(Report& report, const Options&) {
  cases::Random random(5);
  for_each_taken(report, [&]<class Args>(const StageCall<Args>& call, const StageTarget<Args>& target) {
    const std::vector<double> exact = stage_reference(call.args);
    for (const Layout& layout : {Layout{}, Layout::padded(4), Layout::random(4, random)}) {
      Args args = call.args;
      const LaidOut source = LaidOut::copy_of(args.*call.input, layout);
      const LaidOut out((args.*call.input).shape(), DType::f32, layout);
      args.*call.input = source.view();
      args.out = out.view();
      if (!target.takes(args)) continue;
      target.expect(target.run(args).data() == out.view().data(), "did not write into `out`");
      const std::string wrong = too_far(Tensor::over(out.view()), exact);
      target.expect(wrong.empty(), wrong);
      target.expect(out.intact_around(), "wrote around `out`");
      target.expect(source.intact(), "wrote into its input");
    }
  });
}

void check_in_place(Report& report, const Options&) {
  for_each_taken(report, []<class Args>(const StageCall<Args>& call, const StageTarget<Args>& target) {
    if ((call.args.*call.input).dtype() != DType::f32) return;
    Args args = call.args;
    const LaidOut memory = LaidOut::copy_of(args.*call.input);
    args.*call.input = args.out = memory.view();
    if (!target.takes(args)) return;
    (void)target.run(args);
    target.expect(same_bytes(memory, target.run(call.args)), "other bits in place");
    target.expect(memory.intact_around(), "wrote around `out`");
  });
}

void check_verifier(Report& report, const Options&) {
  for_each_call([&]<class Args>(const StageCall<Args>& call) {
    const StageTarget<Args> target(report, call);
    ++report.calls;
    Args copy;
    std::memcpy(static_cast<void*>(&copy), &call.args, sizeof copy);
    const auto answer = target.ask(call.args);
    target.expect(answer == target.ask(call.args), "verifier gives two answers");
    target.expect(std::memcmp(&copy, &call.args, sizeof copy) == 0, "verifier changes the arguments");
    if (answer.takes() || answer.state == "not_implemented") return;
    target.expect(answer.state == "refused", "verifier says " + answer.state + ": " + answer.reason);
    target.expect(!answer.reason.empty() && !answer.place.starts_with(":"), "refuses without a reason");
  });
}

/// A check of any op, of every stage.
template <void (*check)(const SearchedOp&, Report&, const Options&)>
void search(Report& report, const Options& options) {
  for (const SearchedOp* stage : searched_stages()) check(*stage, report, options);
  if (report.calls == 0)
    report.failures.push_back("took none of " + std::to_string(report.refused) + " calls");
}

void check_stage_ranges(Report& report, const Options& options) {
  for (const SearchedOp* stage : searched_stages()) check_ranges(*stage, report, options);
  if (report.calls == 0) report.skipped = "serves no stage whose inputs have a range";
}

constexpr std::array kChecks{
    Check{"arguments", search<check_arguments_one_at_a_time>},
    Check{"arguments_together", search<check_arguments_together>},
    Check{"ranges", check_stage_ranges},
    Check{"causality", search<check_causality>},
    Check{"random", check_random},
    Check{"same_bits_twice", check_same_bits_twice},
    Check{"same_bits_in_any_batch", check_same_bits_in_any_batch},
    Check{"poison_around", check_poison_around},
    Check{"in_place", check_in_place},
    Check{"verifier", check_verifier},
};

}  // namespace

std::span<const Check> stage_checks() { return kChecks; }

}  // namespace fla::conformance
