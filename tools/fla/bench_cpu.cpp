#include <algorithm>
#include <cmath>
#include <cstring>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/case.h"
#include "tools/cases/op.h"
#include "tools/cases/random.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/with_op.h"
#include "tools/fla/bench.h"
#include "tools/fla/chosen_backend.h"
#include "tools/fla/clock.h"
#include "tools/fla/peak.h"

namespace fla::command {
namespace {

/// Decay, k^T S, the rank-one update and q^T S are 1 + 2 + 2 + 2 operations an element of the state; what is
/// done once a channel brings that to 115,000 for K = V = 128. The additive rule has no k^T S, a low-rank
/// pair one more update.
double operations_per_token_head(Rule rule, const AxisSizes& sizes) {
  const double share = rule == Rule::additive ? 5.0 / 7 : rule == Rule::low_rank ? 9.0 / 7 : 1;
  return share * 115'000.0 * static_cast<double>(sizes[Axis::K] * sizes[Axis::V]) / (128.0 * 128.0);
}

double bytes_of(const TensorView& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.numel()) * static_cast<double>(size_of(tensor.dtype()))
                          : 0;
}

void poison(const Tensor& tensor) {
  std::memset(tensor.data(), 0xff, static_cast<std::size_t>(bytes_of(tensor)));  // NaN in every dtype
}

template <class Args>
cases::RandomCase<Args> random_call(const BenchRequest& request, const BenchCase& bench_case, DType dtype) {
  cases::CaseSpec<Args> spec;
  const AxisSizes& sizes = bench_case.sizes;
  spec.B = sizes[Axis::B], spec.T = sizes[Axis::T], spec.H = sizes[Axis::H];
  spec.HV = sizes[Axis::HV], spec.K = sizes[Axis::K], spec.V = sizes[Axis::V];
  if (const std::int64_t packed = sizes[Axis::N]; packed > 0) {
    for (std::int64_t i = 0; i < packed; ++i)
      spec.lengths.push_back((i + 1) * spec.T / packed - i * spec.T / packed);
  }
  spec.dtype = spec.gate_dtype = dtype;
  spec.data = request.gates;
  for (const auto& [name, value] : request.options) {
    cases::set_option(Args::arguments(), &spec.options, name, value);
  }
  return cases::make_case(spec);
}

double bytes_of_inputs(const recurrence::Arguments& args) {
  double sum = bytes_of(args.initial_state);
  for (const TensorView* tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.a, &args.b})
    sum += bytes_of(*tensor);
  return sum;
}

/// A call on random data with memory for its results. A short call updates its state in place, as decoding
/// does.
template <RecurrenceArgs OpArgs>
class Subject {
 public:
  using Args = OpArgs;

  Subject(const BenchRequest& request, const BenchCase& bench_case, DType dtype)
      : call_(random_call<Args>(request, bench_case, dtype)) {
    Args& args = call_.args;
    validate_arguments(args);
    o_ = Tensor::empty(args.v.shape(), args.v.dtype());
    args.out = o_;
    pristine_ = args.initial_state;
    state_ = Tensor::empty(args.initial_state.shape(), args.initial_state.dtype());
    args.final_state = state_;
    in_place_ = front_door(args) == Args::kOp.recurrent;
    if (in_place_) args.initial_state = state_;
    reset();
  }

  const Args& args() const { return call_.args; }
  std::string function(const std::string& asked_for) const {
    return std::string(cases::find_op(Args::kOp.name).function_or_front_door(asked_for, &call_.args));
  }

  /// The state as it was at first; outputs full of NaN.
  void reset() {
    poison(o_);
    if (in_place_) {
      std::memcpy(state_.data(), pristine_.data(), static_cast<std::size_t>(bytes_of(pristine_)));
    } else {
      poison(state_);
    }
  }

  /// Against the reference on a few heads, spread over the call.
  void compare(BenchRow& row) const {
    Args reference_args = call_.args;
    reference_args.initial_state = pristine_;
    const RecurrenceSizes sizes = sizes_of(reference_args);
    const std::int64_t heads = sizes.N * sizes.HV, samples = std::min<std::int64_t>(heads, 4);
    cases::ErrorSum o, state;
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t at = samples == 1 ? 0 : i * (heads - 1) / (samples - 1);
      const std::int64_t n = at / sizes.HV, head = at % sizes.HV;
      const cases::ReferenceHead expected = cases::reference_head_of(reference_args, n, head);
      const Sequence tokens = tokens_of(reference_args, n);
      const double* next = expected.o.data();
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        const std::int64_t row_at = ((tokens.batch * sizes.T + t) * sizes.HV + head) * sizes.V;
        for (std::int64_t v = 0; v < sizes.V; ++v) o.add(cases::element(o_, row_at + v), *next++);
      }
      for (std::int64_t k = 0; k < sizes.K; ++k) {
        for (std::int64_t v = 0; v < sizes.V; ++v) {
          const std::int64_t place = reference_args.state_v_first ? v * sizes.K + k : k * sizes.V + v;
          state.add(cases::element(state_, at * sizes.K * sizes.V + place),
                    expected.state[static_cast<std::size_t>(k * sizes.V + v)]);
        }
      }
    }
    row.error_o = o.relative();
    row.error_state = state.relative();
  }

  double bytes() const {
    return bytes_of_inputs(recurrence::arguments_of(call_.args)) + bytes_of(o_) + bytes_of(state_);
  }
  double operations(const AxisSizes& sizes) const { return operations_per_token_head(Args::kOp.rule, sizes); }

 private:
  cases::RandomCase<Args> call_;
  Tensor o_, state_;
  TensorView pristine_;
  bool in_place_ = false;
};

/// The backward function on such a call, with memory for its gradients.
template <RecurrenceArgs Forward>
class BackwardSubject {
 public:
  using Args = typename Forward::Backward;

  BackwardSubject(const BenchRequest& request, const BenchCase& bench_case, DType dtype)
      : call_(random_call<Forward>(request, bench_case, dtype)),
        upstream_(Tensor::empty(call_.args.v.shape(), call_.args.v.dtype())),
        of_state_(Tensor::empty(call_.args.initial_state.shape(), DType::f32)) {
    cases::Random random(7);
    for (const Tensor& tensor : {upstream_, of_state_}) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        cases::store(tensor, i, static_cast<double>(random.normal()));
    }
    args_ = cases::backward_call(call_.args, upstream_, of_state_);
    validate_arguments(args_);
    const ScopedPolicy scope(policy_for(Args::kOp.name, kOriginal));
    expected_ = cases::Functions<Forward>::backward(args_);
    for (const Argument& argument : Args::arguments()) {
      if (argument.kind != ArgumentKind::output) continue;
      const TensorView& input = find_argument(Args::arguments(), argument.needs)->tensor(&args_);
      if (!input.defined()) continue;
      gradients_.push_back(Tensor::empty(input.shape(), input.dtype()));
      argument.tensor(&args_) = gradients_.back();
    }
    reset();
  }

  const Args& args() const { return args_; }
  std::string function(const std::string& /*asked_for*/) const { return std::string(Args::kOp.backward); }
  void reset() {
    for (const Tensor& gradient : gradients_) poison(gradient);
  }

  /// The worst of the gradients against the original kernel's.
  void compare(BenchRow& row) const {
#define FLA_INPUT(name)                                                                             \
  if constexpr (requires { args_.d##name; }) {                                                      \
    if (args_.d##name.defined())                                                                    \
      row.error_o = std::max(row.error_o, cases::relative_error(args_.d##name, expected_.d##name)); \
  }
    FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  }

  double bytes() const {
    double sum = bytes_of_inputs(recurrence::arguments_of(args_)) + bytes_of(upstream_) + bytes_of(of_state_);
    for (const Tensor& gradient : gradients_) sum += bytes_of(gradient);
    return sum;
  }
  /// The recurrence again and twice as much backwards.
  double operations(const AxisSizes& sizes) const {
    return 3 * operations_per_token_head(Args::kOp.rule, sizes);
  }

 private:
  cases::RandomCase<Forward> call_;
  Tensor upstream_, of_state_;
  Args args_;
  RecurrenceGradients expected_;
  std::vector<Tensor> gradients_;
};

template <class Args>
struct Contestant {
  BenchRow row;
  Plan<Args> plan;
  std::vector<double> times;
  int calls = 1;  ///< timed together, so that the clock's grain does not matter

  double time(const Args& args) const {
    const double begin = now();
    for (int i = 0; i < calls; ++i) static_cast<void>(plan(args));
    return (now() - begin) / calls;
  }
};

template <class Args>
std::vector<std::string> backends_for(const BenchRequest& request, std::string_view function,
                                      const Args& args) {
  if (!request.backends.empty()) return request.backends;
  std::vector<std::string> names = backends_that_take(explain(Args::kOp.name, function, args));
  names.emplace_back(kOriginal);
  return names;
}

template <class Subject>
std::vector<BenchRow> measure(const BenchRequest& request, const BenchCase& bench_case, DType dtype,
                              int threads, Subject& subject) {
  using Args = typename Subject::Args;
  constexpr double kTimedSeconds = 2e-4;
  constexpr int kFewest = 5, kMost = 10'000;
  const Args& args = subject.args();
  const std::string function = subject.function(request.function);
  std::vector<Contestant<Args>> contestants;
  for (const std::string& backend : backends_for(request, function, args)) {
    const ScopedPolicy scope(policy_for(Args::kOp.name, backend));
    Contestant<Args> contestant{.row = {}, .plan = plan(Args::kOp.name, function, args), .times = {}};
    BenchRow& row = contestant.row;
    row = {.case_name = bench_case.name,
           .function = function,
           .backend = backend,
           .dtype = dtype,
           .threads = threads,
           .sizes = bench_case.sizes,
           .error_state = {}};
    row.bytes = subject.bytes();
    row.operations = subject.operations(row.sizes) * row.token_heads();
    subject.reset();
    static_cast<void>(contestant.plan(args));
    subject.compare(row);
    const double once = contestant.time(args);
    contestant.calls = std::max(1, static_cast<int>(std::ceil(kTimedSeconds / std::max(once, 1e-9))));
    contestants.push_back(std::move(contestant));
  }
  subject.reset();
  const double end = now() + request.seconds * static_cast<double>(contestants.size());
  for (int round = 0; request.repetitions > 0 ? round < request.repetitions
                                              : round < kFewest || (round < kMost && now() < end);
       ++round) {
    for (Contestant<Args>& contestant : contestants) contestant.times.push_back(contestant.time(args));
  }
  std::vector<BenchRow> rows;
  for (Contestant<Args>& contestant : contestants) {
    std::ranges::sort(contestant.times);
    contestant.row.repetitions = static_cast<int>(contestant.times.size());
    contestant.row.min_s = contestant.times.front();
    contestant.row.median_s = contestant.times[contestant.times.size() / 2];
    rows.push_back(contestant.row);
  }
  return rows;
}

/// The best that was seen of the machine counts: what it managed once it can manage.
void improve(Yardstick& yardstick, CopyBandwidth& copy) {
  const MultiplyAddRate rate = measure_multiply_add_rate();
  if (rate.operations_per_s > yardstick.operations_per_s) {
    yardstick.operations_per_s = rate.operations_per_s;
    yardstick.target = rate.target;
  }
  yardstick.copy_bytes_per_s = std::max(yardstick.copy_bytes_per_s, copy.measure());
}

}  // namespace

int bench_steps(const BenchRequest& request) {
  return static_cast<int>(request.dtypes.size() * request.cases.size() * (1 + 2 * request.threads.size()));
}

namespace {

template <class Subject>
BenchReport bench_op(const BenchRequest& request, Progress& progress) {
  BenchReport report{.op = request.op, .rows = {}, .yardsticks = {}};
  for (const int threads : request.threads) report.yardsticks.push_back({.threads = threads, .target = {}});
  CopyBandwidth copy;
  for (const DType dtype : request.dtypes) {
    for (const BenchCase& bench_case : request.cases) {
      const std::string what = bench_case.name + " " + std::string(name_of(dtype));
      progress.begin(what + ": data");
      Subject subject(request, bench_case, dtype);
      for (std::size_t i = 0; i < request.threads.size(); ++i) {
        const int threads = request.threads[i];
        set_num_threads(threads);
        progress.begin("what the machine can do, " + std::to_string(threads) + " threads");
        improve(report.yardsticks[i], copy);
        progress.begin(what + ", " + std::to_string(threads) + " threads");
        for (BenchRow& row : measure(request, bench_case, dtype, threads, subject))
          report.rows.push_back(std::move(row));
      }
    }
  }
  set_num_threads(0);
  return report;
}

}  // namespace

BenchReport run_bench(const BenchRequest& request, Progress& progress) {
  return cases::with_op(request.op, [&]<class Args>(std::type_identity<Args>) {
    return request.backward ? bench_op<BackwardSubject<Args>>(request, progress)
                            : bench_op<Subject<Args>>(request, progress);
  });
}

}  // namespace fla::command
