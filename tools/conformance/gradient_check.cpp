#include "tools/conformance/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/check.h"
#include "tools/conformance/child.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/op_specs.h"
#include "tools/conformance/other_device.h"
#include "tools/conformance/padded_call.h"
#include "tools/conformance/searched_op.h"

namespace fla::conformance {
namespace {

template <RecurrenceArgs Forward>
class GradientCheck {
 public:
  using Args = typename Forward::Backward;
  using Spec = cases::CaseSpec<Forward>;

  GradientCheck(Report& report, const Options& options)
      : report_(report), options_(options), precision_(precision_of(Args::kOp.name, report.backend)) {}

  void run() {
    for (const std::string& file : golden_files(options_, Args::kOp.name)) {
      const cases::Case golden = cases::read_case(file, "", {}, cases::Direction::backward);
      if (golden.expected.empty()) continue;
      // Where keys repeat, rounding costs twice as much.
      const double times = file.find("repeated_keys") != std::string::npos ? 2 : 1;
      attempt(golden.args_as<Args>(), [&](const Args& args) { compare(args, golden.expected, times); });
    }
    for (const Spec& spec : specs_of<Forward>()) {
      const Call call(spec);
      if (is_nothing_left(spec, call.args)) continue;
      attempt(call.args, [&](const Args& args) { compare_with_reference(args, spec); });
    }
    for (const Spec& spec : few_specs_of<Forward>()) {
      const Call call(spec);
      attempt(call.args, [&](const Args& args) { compare_bits(args); });
      const bool is_slow = spec.data == cases::DataKind::slow;
      attempt(call.args, [&](const Args& args) { compare_scaled(args, call, is_slow); });
      attempt(call.args, [&](const Args& args) { compare_surrounded(args); });
    }
    indices_ =
        DeviceIndices::on_host;  // with those on a device, gradients behind the sequences are not written
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Spec spec{.H = 1, .HV = 2, .lengths = {70, 0, 33, 20}, .dtype = dtype};
      const Call call(spec);
      attempt(without_last_sequence(call.args), [&](const Args& args) { compare_padded(args, spec); });
    }
    if (report_.calls > 0) return;
    if (!has_function_) {
      report_.refused = 0;
      report_.refusals.push_back("has no " + std::string(Args::kOp.backward));
      return;
    }
    report_.skipped = service_elsewhere();
    if (report_.skipped.empty())
      report_.failures.push_back("took none of " + std::to_string(report_.refused) + " calls");
  }

 private:
  using Call = cases::BackwardCase<Forward>;

  void fail(const std::string& what, const Args& args) const {
    if (report_.failures.size() < kMostFailures)
      report_.failures.push_back(std::string(Args::kOp.backward) + ": " + what + " [" + describe(args) + "]");
  }

  /// What the backend says to the call on the device of its tensors.
  Answer answer(const Args& args) const {
    if (report_.backend == "original") return {"selected", "", ""};
    const ScopedPolicy policy(only(Args::kOp.name, report_.backend));
    for (const Explanation::Row& row : explain(Args::kOp.name, Args::kOp.backward, args).rows) {
      if (row.name == report_.backend) return {row.state, row.reason, row.place};
    }
    return {"absent", "", ""};
  }
  /// The same on the device that is checked. The tensors are on the host.
  Answer ask(const Args& args) const {
    if (options_.device.is_cpu()) return answer(args);
    return answer(DeviceCall<Args>(args, options_.device, indices_).args());
  }

  /// Whether the backend takes the call.
  bool takes(const Args& args) {
    const Answer said = ask(args);
    has_function_ = has_function_ || (said.state != "not_implemented" && said.state != "absent");
    return said.takes();
  }

  /// Why a backend takes no call here though it takes some on another kind of device; empty when it takes
  /// none there, either.
  std::string service_elsewhere() const {
    const std::optional<Device> other = other_device(options_.device);
    if (!other) return "";
    for (const Spec& spec : few_specs_of<Forward>()) {
      const Call call(spec);
      if (call.args.cu_seqlens.defined() || !answer(as_if_on(*other, call.args)).takes()) continue;
      return "serves " + to_string(*other) + ": " + ask(call.args).reason;
    }
    return "";
  }

  template <class Body>
  void attempt(const Args& args, Body&& body) {
    if (!takes(args)) {
      ++report_.refused;
      return;
    }
    ++report_.calls;
    note_progress(std::string(Args::kOp.backward) + " [" + describe(args) + "]");
    try {
      body(args);
    } catch (const std::exception& error) {
      fail(std::string("threw: ") + error.what(), args);
    }
  }

  RecurrenceGradients gradients_of(const Args& args) const {
    if (options_.device.is_cpu()) return gradients_there(args);
    DeviceCall<Args> call(args, options_.device, indices_);
    RecurrenceGradients gradients = call.bring_back(gradients_there(call.args()));
    if (!call.damage().empty()) fail(call.damage(), args);
    return gradients;
  }

  /// Where the arguments are.
  RecurrenceGradients gradients_there(const Args& args) const {
    using Functions = cases::Functions<Forward>;
    if (report_.backend == "original") return Functions::original_backward(args);
    const ScopedPolicy policy(only(Args::kOp.name, report_.backend));
    return Functions::backward(args);
  }

  double tolerance(const Args& args, DType gradient) const {
    double allowed = std::max(cases::gradient_tolerance(precision_), cases::gradient_tolerance(gradient));
    for (const TensorView& tensor : {args.q, args.k, args.v})
      allowed = std::max(allowed, cases::gradient_tolerance(tensor.dtype()));
    return allowed;
  }

  /// How many times that random data may be off by. Gradients of parameters are sums of numbers of either
  /// sign, and where keys repeat there is little left of what a token would add.
  static double leniency(const std::string& gradient, const Spec& spec) {
    const Argument* argument = find_argument(Args::arguments(), gradient);
    const bool is_sum = argument != nullptr && argument->shape.text.starts_with("HV");
    const bool repeats = spec.data == cases::DataKind::repeated_keys;
    // A state that every token overwrites does not depend on how it decays.
    const bool is_gates = is_sum || gradient == "dg";
    if (repeats && is_gates && Args::kOp.rule == Rule::delta && Args::kOp.gate == GateKind::token)
      return INFINITY;
    return is_sum ? 30 : repeats ? 20 : 1;
  }

  /// Whether gradients cancel to nothing: those of a single channel that is divided by itself, those of a
  /// query that its own product with equal keys divides, and those of a state that a key of one channel
  /// overwrites.
  static bool is_nothing_left(const Spec& spec, const Args& args) {
    const recurrence::Arguments all = recurrence::arguments_of(args);
    const bool repeats = spec.data == cases::DataKind::repeated_keys;
    return (spec.K == 1 && (all.use_qk_l2norm_in_kernel || repeats)) ||
           (all.normalize && (repeats || spec.K == 1));
  }

  void compare(const Args& args, const std::vector<cases::NamedTensor>& expected, double times) const {
    const auto gradients = cases::named_gradients(gradients_of(args));
    for (const cases::NamedTensor& each : expected) {
      const auto found = std::ranges::find(gradients, each.name, [](const auto& one) { return one.first; });
      const bool there = found != gradients.end() && found->second.defined();
      const double error = there ? cases::relative_error(found->second, each.tensor) : INFINITY;
      if (!there || !(error <= times * tolerance(args, found->second.dtype())))
        fail(each.name + " is off by " + std::to_string(error), args);
    }
  }

  void compare_with_reference(const Args& args, const Spec& spec) const {
    const auto reference = cases::named_gradients(cases::gradient_reference_of(args));
    const auto gradients = cases::named_gradients(gradients_of(args));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& [name, gradient] = gradients[i];
      const std::vector<double>& expected = reference[i].second;
      if (gradient.defined() != !(expected.empty() && !has_input(args, name))) {
        fail(name + (gradient.defined() ? " came without its input" : " did not come"), args);
        continue;
      }
      if (!gradient.defined()) continue;
      const double error = cases::gradient_error(gradient, expected);
      if (!(error <= leniency(name, spec) * tolerance(args, gradient.dtype())))
        fail(
            std::string(cases::name_of(spec.data)) + " data: " + name + " is off by " + std::to_string(error),
            args);
    }
  }

  static bool has_input(const Args& args, const std::string& gradient) {
    const Argument* input = find_argument(Args::arguments(), std::string_view(gradient).substr(1));
    return input != nullptr && input->tensor(static_cast<const void*>(&args)).defined();
  }

  void compare_bits(const Args& args) const {
    const auto same = [&](const RecurrenceGradients& a, const RecurrenceGradients& b,
                          const std::string& when) {
      const auto left = cases::named_gradients(a), right = cases::named_gradients(b);
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (left[i].second.defined() && !same_bytes(left[i].second, right[i].second))
          fail(left[i].first + " has other bits " + when, args);
      }
    };
    set_num_threads(1);
    const RecurrenceGradients once = gradients_of(args);
    same(once, gradients_of(args), "the second time");
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      same(once, gradients_of(args), "on " + std::to_string(threads) + " threads");
    }
    set_num_threads(0);
    const std::int64_t sequences = call_of(args, RecurrenceGradients{}).call.N;
    for (std::int64_t n = 0; n < sequences; ++n) same_alone(args, once, n);
  }

  /// Sequence n as a call of its own. Gradients of parameters are sums over all of them.
  void same_alone(const Args& args, const RecurrenceGradients& together, std::int64_t n) const {
    const Sequence tokens = recurrence::tokens_of(recurrence::arguments_of(args), n);
    const auto cut = [&](const Argument& argument, const TensorView& tensor) {
      if (argument.shape.text.starts_with("B T"))
        return tensor.slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
      return argument.shape.text.starts_with("P ") ? tensor.slice(0, n, 1) : tensor;
    };
    Args one = args;
    one.cu_seqlens = {};
    for (const Argument& argument : Args::arguments()) {
      if (!argument.is_tensor() || argument.kind == ArgumentKind::index) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&one));
      if (tensor.defined()) tensor = cut(argument, tensor);
    }
    const auto whole = cases::named_gradients(together), alone = cases::named_gradients(gradients_of(one));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Argument* argument = find_argument(Args::arguments(), whole[i].first);
      if (!whole[i].second.defined() || argument == nullptr) continue;
      const bool is_sum = argument->shape.text.starts_with("HV");
      if (!is_sum && !same_bytes(cut(*argument, whole[i].second), alone[i].second))
        fail(whole[i].first + " of sequence " + std::to_string(n) + " has other bits alone", args);
    }
  }

  /// Gradients that come in are often tiny.
  void compare_scaled(const Args& args, const Call& call, bool is_slow) const {
    const auto scale_by = [&](int power) {
      for (const Tensor& tensor : {call.upstream, call.of_state}) {
        for (std::int64_t i = 0; i < tensor.numel(); ++i)
          cases::store(tensor, i, std::ldexp(cases::element(tensor, i), power));
      }
    };
    const bool is_f16 = args.do_.dtype() == DType::f16 || args.q.dtype() == DType::f16;
    const auto plain = cases::named_gradients(gradients_of(args));
    for (const int power : {-60, 60}) {
      if (is_f16) continue;  // neither what comes in nor what goes out could hold it
      scale_by(power);
      const auto scaled = cases::named_gradients(gradients_of(args));
      scale_by(-power);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        const auto& [name, gradient] = plain[i];
        std::vector<double> expected;
        bool is_exact = true;
        for (std::int64_t at = 0; at < gradient.numel(); ++at) {
          expected.push_back(std::ldexp(cases::element(gradient, at), power));
          is_exact = is_exact && cases::element(scaled[i].second, at) == expected.back();
        }
        if (is_exact || !gradient.defined()) continue;
        // Numbers that decays have brought to the end of f32's range may be lost on one side.
        if (std::ranges::all_of(expected, [](double x) { return std::abs(x) < 1e-28; })) continue;
        const double error = cases::relative_error(scaled[i].second, expected);
        if (is_slow || !(error <= tolerance(args, gradient.dtype()) / 100))
          fail(name + " is not scaled by 2^" + std::to_string(power) + " as do and dht are", args);
      }
    }
  }

  /// Inputs between poison, and outputs of the caller's that are poison; then one of those alone.
  void compare_surrounded(const Args& args) {
    const auto plain = cases::named_gradients(gradients_of(args));
    Args given = args;
    std::vector<LaidOut> inputs, outputs;
    inputs.reserve(Args::arguments().size()), outputs.reserve(Args::arguments().size());
    for (const Argument& argument : Args::arguments()) {
      if (!argument.is_tensor()) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&given));
      if (argument.kind == ArgumentKind::output) {
        const TensorView& like = find_argument(Args::arguments(), argument.needs)->tensor(&args);
        if (!like.defined()) continue;
        outputs.emplace_back(like.shape(), like.dtype(), Layout::padded(like.rank()));
        tensor = outputs.back().view();
      } else if (tensor.defined()) {
        inputs.push_back(LaidOut::copy_of(
            tensor, argument.kind == ArgumentKind::index ? Layout{} : Layout::padded(tensor.rank())));
        tensor = inputs.back().view();
      }
    }
    if (!takes(given)) return;
    const auto gradients = cases::named_gradients(gradients_of(given));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].second.defined() && !same_bytes(plain[i].second, gradients[i].second))
        fail(plain[i].first + " has other bits in the caller's memory", given);
    }
    for (const LaidOut& output : outputs) {
      if (!output.intact_around()) fail("wrote around an output", given);
    }
    for (const LaidOut& input : inputs) {
      if (!input.intact()) fail("wrote into an input", given);
    }
    Args one = args;
    const Tensor dv = Tensor::empty(args.v.shape(), args.v.dtype());
    one.dv = dv;
    if (!takes(one)) return;
    const RecurrenceGradients alone = gradients_of(one);
    for (const auto& [name, gradient] : cases::named_gradients(alone)) {
      if (gradient.defined() != (name == "dv")) fail(name + " with memory for dv alone", one);
    }
    if (!same_bytes(dv, plain[2].second)) fail("dv has other bits when it is asked for alone", one);
  }

  /// A call whose packed sequences end before T.
  void compare_padded(const Args& args, const Spec& spec) {
    compare_with_reference(args, spec);
    compare_surrounded(args);
    for (const auto& [name, gradient] : cases::named_gradients(gradients_of(args))) {
      const Argument* argument = find_argument(Args::arguments(), name);
      if (gradient.defined() && argument->shape.text.starts_with("B T") && !has_empty_padding(gradient, args))
        fail(name + " behind the last sequence is not zero", args);
    }
  }

  Report& report_;
  const Options& options_;
  DType precision_;
  bool has_function_ = false;
  DeviceIndices indices_ = DeviceIndices::on_device;
};

}  // namespace

template <RecurrenceArgs Args>
void check_gradients(Report& report, const Options& options) {
  GradientCheck<Args>(report, options).run();
}

#define FLA_OP(NAME, ARGS) template void check_gradients<ARGS>(Report&, const Options&);
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
