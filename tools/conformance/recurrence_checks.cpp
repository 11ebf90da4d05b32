#include "tools/conformance/recurrence_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>

#include "fla/core/errors.h"
#include "fla/core/half.h"
#include "fla/core/threads.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/case.h"
#include "tools/cases/token_tensors.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/argument_search.h"
#include "tools/conformance/causality_check.h"
#include "tools/conformance/gradient_check.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/nearest_call.h"
#include "tools/conformance/op_specs.h"
#include "tools/conformance/op_target.h"
#include "tools/conformance/other_device.h"
#include "tools/conformance/padded_call.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/range_check.h"
#include "tools/conformance/ring_check.h"
#include "tools/conformance/searched_recurrence.h"
#include "tools/conformance/summary_check.h"
#include "tools/conformance/surrounded.h"

namespace fla::conformance {
namespace {

template <RecurrenceArgs Args>
struct Checks {
  using Spec = cases::CaseSpec<Args>;
  using Case = cases::RandomCase<Args>;
  using Subject = OpTarget<Args>;

  static void fail(Report& report, const Subject& target, const std::string& what, const Args& args) {
    if (report.failures.size() < kMostFailures) {
      report.failures.push_back(target.function + ": " + what + " [" + describe(args) + "]");
    }
  }

  /// Asks; counts what is refused.
  static bool takes(Report& report, const Subject& target, const Args& args) {
    if (target.ask(args).takes()) {
      ++report.calls;
      return true;
    }
    ++report.refused;
    return false;
  }

  /// Calls body(target) for both functions, on a device also with the call's indices here and there. What it
  /// throws is a failure of that target.
  template <class Body>
  static void for_each_target(Report& report, const Options& options, const Args& args, Body&& body,
                              bool adds_indices = false) {
    using Indices = DeviceIndices;
    const bool has_indices = adds_indices || args.cu_seqlens.defined() || args.state_indices.defined();
    for (const std::string_view function : Subject::kFunctions) {
      for (const Indices indices : {Indices::on_device, Indices::on_host}) {
        if (indices == Indices::on_host && (options.device.is_cpu() || !has_indices)) continue;
        const Subject target{std::string(function), report.backend, options.device, indices};
        try {
          body(target);
        } catch (const DeviceLost&) {
          throw;
        } catch (const std::exception& error) {
          fail(report, target, std::string("threw: ") + error.what(), args);
        }
      }
    }
  }

  /// Whether a backend has none of these functions.
  static bool has_nothing(const Report& report, const Options& options) {
    const Case any = cases::make_case(few_specs_of<Args>().front());
    return std::ranges::all_of(Subject::kFunctions, [&](std::string_view function) {
      return Subject{std::string(function), report.backend, options.device}.ask(any.args).state ==
             "not_implemented";
    });
  }

  /// Why a backend need not take a call here: it has none of these functions, or takes calls on another kind
  /// of device. Empty when it has to.
  static std::string excuse(const Report& report, const Options& options) {
    const auto answer = [&](std::string_view function, Device device, const Args& args) {
      return Subject{std::string(function), report.backend, device}.ask(args);
    };
    if (has_nothing(report, options))
      return "has no " + std::string(Args::kOp.chunk) + " and no " + std::string(Args::kOp.recurrent);
    const std::vector<Spec> specs = few_specs_of<Args>();
    const std::optional<Device> other = other_device(options.device);
    if (!other) return "";
    for (const Spec& spec : specs) {
      const Case call = cases::make_case(spec);
      if (call.args.cu_seqlens.defined()) continue;
      const Args there = as_if_on(*other, call.args);
      for (const std::string_view function : Subject::kFunctions) {
        if (!answer(function, *other, there).takes()) continue;
        return "serves " + to_string(*other) + ": " + answer(function, options.device, call.args).reason;
      }
    }
    return "";
  }

  /// A backend that takes no call of a suite was not tested by it.
  static void expect_some_calls(Report& report, const Options& options) {
    if (report.calls > 0) return;
    report.skipped = excuse(report, options);
    if (report.skipped.empty())
      report.failures.push_back("took none of " + std::to_string(report.refused) + " calls");
  }

  /// A call that a check makes, and its reference as soon as somebody asks for it.
  class CheckedCall {
   public:
    explicit CheckedCall(const Spec& spec) : call_(cases::make_case(spec)) {}

    const Args& args() const { return call_.args; }
    const cases::Reference& reference() const {
      if (!reference_) reference_ = cases::reference_of(call_.args);
      return *reference_;
    }

   private:
    Case call_;
    mutable std::optional<cases::Reference> reference_;
  };

  /// Calls body(target, call, i) for the call of specs[i] on every target: as it is where the target takes
  /// it, otherwise as near to it as the target takes. `adds_indices`: the body makes calls with indices of
  /// it.
  template <class Body>
  static void for_each_call(Report& report, const Options& options, const std::vector<Spec>& specs,
                            Body&& body, bool adds_indices = false) {
    if (has_nothing(report, options)) return expect_some_calls(report, options);
    NearestCall<Args> nearest;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const CheckedCall call(specs[i]);
      const auto on_target = [&](const Subject& target) {
        if (takes(report, target, call.args())) {
          body(target, call, i);
        } else if (const std::optional<Spec> other = nearest(target, specs[i])) {
          ++report.calls;
          body(target, CheckedCall(*other), i);
        }
      };
      for_each_target(report, options, call.args(), on_target, adds_indices);
    }
    expect_some_calls(report, options);
  }

  static bool takes_long_calls_alone(const Report& report, const Options& options) {
    std::vector<CallForm> taken;
    for (const std::string_view function : Subject::kFunctions) {
      const Target target{std::string(function), report.backend, options.device, false};
      std::ranges::copy(taken_seeds(searched_recurrence<Args>(), target), std::back_inserter(taken));
    }
    return !taken.empty() &&
           std::ranges::all_of(taken, [](CallForm form) { return form[Axis::T] >= kLongCall; });
  }

  static void check_golden(Report& report, const Options& options) {
    if (options.golden_dir.empty()) {
      report.not_shown.emplace_back("no golden cases were given");
      return;
    }
    for (const std::string& file : golden_files(options, Args::kOp.name)) {
      const cases::Case golden = cases::read_case(file);
      const Args& args = golden.args_as<Args>();
      const cases::Reference expected = expected_of(golden);
      for_each_target(report, options, args, [&](const Subject& target) {
        if (!takes(report, target, args)) return;
        const std::string wrong = disagreement(target.run(args), expected, args, target.precision());
        if (!wrong.empty())
          fail(report, target, std::filesystem::path(file).filename().string() + ": " + wrong, args);
      });
    }
    if (report.calls > 0) return;
    report.skipped = excuse(report, options);
    if (report.skipped.empty() && takes_long_calls_alone(report, options))
      report.skipped = "takes long calls alone, of which there are no golden cases";
    if (report.skipped.empty()) report.not_shown.emplace_back("takes none of the golden cases");
  }

  static void check_random(Report& report, const Options& options) {
    const std::vector<Spec> specs = specs_of<Args>();
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& call, std::size_t i) {
      const std::string wrong =
          disagreement(target.run(call.args()), call.reference(), call.args(), target.precision());
      if (!wrong.empty())
        fail(report, target, std::string(cases::name_of(specs[i].data)) + " data: " + wrong, call.args());
    });
  }

  static void check_same_bits_twice(Report& report, const Options& options) {
    for_each_call(report, options, few_specs_of<Args>(),
                  [&](const Subject& target, const CheckedCall& call, auto) {
                    if (!same_bits(target.run(call.args()), target.run(call.args())))
                      fail(report, target, "other bits the second time", call.args());
                  });
  }

  static void check_same_bits_with_any_threads(Report& report, const Options& options) {
    if (!options.device.is_cpu()) {
      report.skipped = "CPU threads take no part in a call on " + to_string(options.device);
      return;
    }
    for_each_call(
        report, options, few_specs_of<Args>(), [&](const Subject& target, const CheckedCall& call, auto) {
          set_num_threads(1);
          const RecurrenceResult alone = target.run(call.args());
          for (const int threads : {2, 3, 8}) {
            set_num_threads(threads);
            if (!same_bits(alone, target.run(call.args())))
              fail(report, target, "other bits on " + std::to_string(threads) + " threads", call.args());
          }
          set_num_threads(0);
        });
  }

  /// Sequence n of a call, as a call of its own over the same memory.
  static Args alone(const Args& args, std::int64_t n) {
    Args one = args;
    const Sequence tokens = tokens_of(args, n);
    cases::for_each_token_tensor(one, [&](TensorView& tensor) {
      tensor = tensor.slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
    });
    if (one.initial_state.defined()) one.initial_state = one.initial_state.slice(0, n, 1);
    one.cu_seqlens = {};
    return one;
  }

  static void check_same_bits_in_any_batch(Report& report, const Options& options) {
    std::vector<Spec> specs;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      specs.push_back(
          {.H = 2, .HV = 4, .K = 64, .V = 64, .lengths = {7, 0, 33, 16, 1, 64, 7}, .dtype = dtype});
      specs.push_back({.H = 1, .K = 48, .V = 40, .lengths = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .dtype = dtype});
      specs.push_back({.B = 4, .T = 21, .H = 2, .K = 32, .V = 96, .dtype = dtype});
      specs.push_back({.B = 7, .T = 1, .H = 2, .K = 128, .V = 128, .dtype = dtype});
      specs.push_back({.H = 1, .K = 128, .V = 128, .lengths = {70, 0, 130, 1, 64}, .dtype = dtype});
    }
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& call, auto) {
      const RecurrenceResult together = target.run(call.args());
      for (std::int64_t n = 0; n < sizes_of(call.args()).N; ++n) {
        const Args one = alone(call.args(), n);
        if (!takes(report, target, one)) continue;
        const Sequence tokens = tokens_of(call.args(), n);
        const TensorView o =
            together.o.view().slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
        const RecurrenceResult part{Tensor::over(o),
                                    Tensor::over(together.final_state.view().slice(0, n, 1))};
        if (!same_bits(part, target.run(one))) {
          fail(report, target, "sequence " + std::to_string(n) + " has other bits alone than in its batch",
               call.args());
        }
      }
    });
  }

  /// The call's tokens [begin, end), which goes on from that state.
  static Args part_of(const Args& args, std::int64_t begin, std::int64_t end, const TensorView& state) {
    Args part = args;
    cases::for_each_token_tensor(part,
                                 [&](TensorView& tensor) { tensor = tensor.slice(1, begin, end - begin); });
    part.initial_state = state;
    return part;
  }

  /// What Policy::batch_invariant promises, of calls that a backend takes under it.
  static void check_batch_invariance(Report& report, const Options& options) {
    if (has_nothing(report, options)) return expect_some_calls(report, options);
    if (!info_of(Args::kOp.name, report.backend).batch_invariant) {
      report.refusals.emplace_back("does not promise the same bits in any batch");
      return;
    }
    const ScopedPolicy policy({.batch_invariant = true});
    std::vector<Spec> specs;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t size : {64, 128}) {
        specs.push_back({.T = 250, .H = 1, .HV = 2, .K = size, .V = size, .dtype = dtype});
        specs.push_back({.T = 193, .H = 1, .K = size, .V = size, .dtype = dtype});
        specs.back().data = cases::DataKind::slow;
        specs.push_back({.H = 1, .K = size, .V = size, .lengths = {70, 0, 130, 1, 64, 320}, .dtype = dtype});
      }
    }
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& call, auto) {
      const RecurrenceResult together = target.run(call.args());
      for (std::int64_t n = 0; n < sizes_of(call.args()).N; ++n) {
        const Args one = alone(call.args(), n);
        const std::int64_t T = one.q.size(1);
        const Sequence tokens = tokens_of(call.args(), n);
        const TensorView o = together.o.view().slice(0, tokens.batch, 1).slice(1, tokens.begin, T),
                         state = together.final_state.view().slice(0, n, 1);
        for (const std::int64_t step : {T, std::int64_t{64}, std::int64_t{128}}) {
          RecurrenceResult last{{}, Tensor::over(one.initial_state)};
          for (std::int64_t begin = 0; begin < T; begin += step) {
            const Args part = part_of(one, begin, std::min(begin + step, T), last.final_state);
            if (!takes(report, target, part)) {
              fail(report, target, "takes a sequence, but not a part of it", part);
              return;
            }
            last = target.run(part);
            if (!same_bytes(last.o, o.slice(1, begin, part.q.size(1))))
              fail(report, target, "has other bits alone or in parts", part);
          }
          if (T > 0 && !same_bytes(last.final_state, state))
            fail(report, target, "has another last state alone or in parts", one);
        }
      }
    });
  }

  /// The call with other layouts, between poison.
  static void check_surrounded(Report& report, const Subject& target, const CheckedCall& plain,
                               const Surrounded<Args>& call) {
    if (!takes(report, target, call.args)) return;
    const RecurrenceResult result = target.run(call.args);
    const std::string wrong = disagreement(result, plain.reference(), call.args, target.precision());
    if (!wrong.empty()) fail(report, target, wrong, call.args);
    if (result.o.data() != call.args.out.data())
      fail(report, target, "did not write o into `out`", call.args);
    for (const LaidOut& output : call.outputs) {
      if (!output.intact_around()) fail(report, target, "wrote around an output", call.args);
    }
    for (const LaidOut& input : call.inputs) {
      if (!input.intact()) fail(report, target, "wrote into an input", call.args);
    }
  }

  static void check_poison_around(Report& report, const Options& options) {
    cases::Random random(5);
    const auto plain = [](const Argument&, int) { return Layout{}; };
    const auto padded = [](const Argument& argument, int rank) {
      return argument.kind == ArgumentKind::index ? Layout{} : Layout::padded(rank);
    };
    const auto any = [&random](const Argument&, int rank) { return Layout::random(rank, random); };
    for_each_call(report, options, few_specs_of<Args>(),
                  [&](const Subject& target, const CheckedCall& call, auto) {
                    check_surrounded(report, target, call, Surrounded(call.args(), plain));
                    check_surrounded(report, target, call, Surrounded(call.args(), padded));
                    check_surrounded(report, target, call, Surrounded(call.args(), any));
                  });
  }

  /// What an earlier call left in scratch memory must not reach a later one.
  static void check_leftovers(Report& report, const Options& options) {
    const std::array<std::array<std::int64_t, 3>, 5> shapes{
        {{21, 40, 56}, {21, 64, 64}, {21, 128, 128}, {1, 64, 64}, {1, 128, 128}}};
    std::vector<Spec> specs;
    for (const auto& [T, K, V] : shapes) {
      for (const DType dtype : {DType::f32, DType::bf16})
        specs.push_back({.B = 2, .T = T, .H = 2, .K = K, .V = V, .dtype = dtype});
    }
    NearestCall<Args> nearest;
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& good, auto) {
      const Spec large{.B = 2, .T = 64, .H = 2, .K = 128, .V = 128, .dtype = good.args().q.dtype()};
      Case bad = cases::make_case(large);
      if (!target.ask(bad.args).takes()) bad = cases::make_case(nearest(target, large).value_or(large));
      for (const Tensor& tensor : bad.memory)
        std::memset(tensor.data(), 0xff, static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
      if (target.ask(bad.args).takes()) (void)target.run(bad.args);
      const std::string wrong =
          disagreement(target.run(good.args()), good.reference(), good.args(), target.precision());
      if (!wrong.empty()) fail(report, target, "after a call full of NaN: " + wrong, good.args());
      // With its outputs given, a call on a device is given a workspace full of NaN, too.
      const Surrounded given(good.args());
      if (!target.ask(given.args).takes()) return;
      const std::string still_wrong =
          disagreement(target.run(given.args), good.reference(), given.args, target.precision());
      if (!still_wrong.empty()) fail(report, target, "on memory full of NaN: " + still_wrong, given.args);
    });
  }

  static void check_state_in_place(Report& report, const Options& options) {
    struct Shape {
      std::int64_t T, K, V;
      DType dtype;
    };
    constexpr std::array shapes{Shape{0, 64, 48, DType::f32}, Shape{1, 64, 48, DType::f32},
                                Shape{1, 64, 64, DType::f32}, Shape{19, 64, 48, DType::f32},
                                Shape{70, 128, 128, DType::bf16}};
    std::vector<Spec> specs;
    for (const bool v_first : {false, true}) {
      for (const auto& [tokens, K, V, dtype] : shapes) {
        specs.push_back({.B = 2,
                         .T = tokens,
                         .H = 2,
                         .K = K,
                         .V = V,
                         .dtype = dtype,
                         .options = {.output_final_state = true, .state_v_first = v_first}});
      }
    }
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& call, auto) {
      if (!call.args().initial_state.defined()) return;
      LaidOut state = LaidOut::copy_of(call.args().initial_state);
      Args in_place = call.args();
      in_place.initial_state = in_place.final_state = state.view();
      if (!takes(report, target, in_place)) return;
      const RecurrenceResult apart = target.run(call.args());
      const RecurrenceResult updated = target.run(in_place);
      if (updated.final_state.data() != state.view().data())
        fail(report, target, "did not update the state in place", in_place);
      if (!same_bits(apart, updated)) fail(report, target, "other bits with the state in place", in_place);
      if (!state.intact_around()) fail(report, target, "wrote around the state", in_place);
    });
  }

  /// States in slots of a pool that indices name: read, written or left alone as they say.
  static void check_state_pool(Report& report, const Options& options) {
    std::vector<Spec> shapes, specs;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      shapes.push_back({.B = 6, .T = 1, .H = 2, .HV = 4, .K = 64, .V = 64, .dtype = dtype});
      shapes.push_back({.B = 5, .T = 1, .H = 2, .K = 128, .V = 128, .dtype = dtype, .gate_dtype = dtype});
      shapes.push_back({.B = 4, .T = 19, .H = 1, .HV = 2, .K = 48, .V = 80, .dtype = dtype});
      shapes.push_back({.H = 2, .K = 64, .V = 64, .lengths = {7, 0, 33, 1, 64, 3}, .dtype = dtype});
      shapes.push_back({.H = 1, .K = 128, .V = 128, .lengths = {7, 0, 70, 1, 64, 3}, .dtype = dtype});
    }
    using Writes = PoolWrites;
    std::vector<PoolKind> kinds;
    std::uint64_t turn = 0;
    for (Spec spec : shapes) {
      for (const Writes writes : {Writes::in_place, Writes::moved, Writes::apart, Writes::nowhere}) {
        ++turn;
        spec.options.state_v_first = turn % 3 == 1;
        spec.state_dtype = turn % 5 == 3 ? DType::bf16 : DType::f32;
        specs.push_back(spec);
        kinds.push_back({.writes = writes,
                         .skips = turn % 4 != 0,
                         .index_dtype = turn % 2 == 0 ? DType::i32 : DType::i64,
                         .seed = turn});
      }
    }
    std::string reason;
    std::int64_t pooled_calls = 0;
    const auto body = [&](const Subject& target, const CheckedCall& call, std::size_t i) {
      if (!call.args().initial_state.defined()) return;
      const PooledCall pooled(call.args(), kinds[i]);
      if (const Answer answer = target.ask(pooled.args()); !answer.takes()) {
        ++report.refused;
        reason = answer.reason;
        return;
      }
      ++pooled_calls;
      const std::string wrong = pooled.wrong(target.run(pooled.args()), call.reference());
      if (!wrong.empty()) fail(report, target, wrong, pooled.args());
    };
    for_each_call(report, options, specs, body, /*adds_indices=*/true);
    report.calls = pooled_calls;
    if (report.calls == 0 && report.skipped.empty() && report.ok())
      report.skipped = "takes no call with state_indices: " + reason;
  }

  static void check_empty_calls(Report& report, const Options& options) {
    const std::vector<Spec> specs{{.B = 2, .T = 0, .H = 2, .K = 32, .V = 32},
                                  {.B = 0, .T = 9, .H = 2, .K = 32, .V = 32},
                                  {.H = 1, .K = 32, .V = 32, .lengths = {0, 0, 0}},
                                  {.B = 2, .T = 0, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16},
                                  {.H = 1, .K = 128, .V = 128, .lengths = {0, 0, 0}, .dtype = DType::f16}};
    for_each_call(report, options, specs, [&](const Subject& target, const CheckedCall& call, auto) {
      if (call.args().v.numel() > 0 || !call.args().initial_state.defined()) return;
      const RecurrenceResult result = target.run(call.args());
      if (!same_bytes(result.final_state, call.args().initial_state))
        fail(report, target, "changed the state without a token", call.args());
    });
  }

  /// Calls that a backend may or may not take: what its verifier is asked about.
  static std::vector<Spec> verifier_specs() {
    std::vector<Spec> specs = few_specs_of<Args>();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const std::int64_t size : {1, 3, 16, 100, 128, 256}) {
        specs.push_back({.T = 3, .H = 1, .K = size, .V = 8, .dtype = dtype, .state_dtype = DType::bf16});
        specs.push_back({.T = 20, .H = 1, .K = 8, .V = size, .dtype = dtype, .gate_dtype = dtype});
      }
    }
    return specs;
  }

  static void check_refusals_have_reasons(Report& report, const Options& options) {
    cases::Random random(9);
    for (const Spec& spec : verifier_specs()) {
      const Case call = cases::make_case(spec);
      const Surrounded strided(call.args,
                               [&random](const Argument&, int rank) { return Layout::random(rank, random); });
      for (const Args& args : {call.args, strided.args}) {
        for_each_target(report, options, args, [&](const Subject& target) {
          const Answer answer = target.ask(args);
          ++(answer.takes() ? report.calls : report.refused);
          if (answer.takes() || answer.state == "not_implemented") return;
          if (answer.state != "refused")
            fail(report, target, "verifier says " + answer.state + ": " + answer.reason, args);
          if (answer.reason.empty()) fail(report, target, "refuses without a reason", args);
          if (answer.place.empty() || answer.place.starts_with(":"))
            fail(report, target, "refuses at no place: " + answer.reason, args);
        });
      }
    }
  }

  static void check_verifier_is_pure(Report& report, const Options& options) {
    if (report.backend == "original") return;
    const auto verify = [&](const Subject& target, const Args& host) {
      std::optional<DeviceCall<Args>> there;
      if (!target.device.is_cpu()) there.emplace(host, target.device, target.indices);
      const Args& args = there ? there->args() : host;
      const std::string_view bytes(reinterpret_cast<const char*>(&args), sizeof args);
      const std::string as_given(bytes);
      const Answer first = target.ask(args);
      if (!(first == target.ask(args))) fail(report, target, "gives two answers", args);
      if (bytes != as_given) fail(report, target, "changes the arguments", args);
      if (!options.allocations) return;
      const ScopedPolicy policy(
          {.enable = {{report.backend, true}}, .order = {{std::string(Args::kOp.name), {report.backend}}}});
      for (int i = 0; i < 2; ++i)
        (void)plan(Args::kOp.name, target.function, args);  // the first one counts a new reason
      const std::uint64_t before = options.allocations();
      (void)plan(Args::kOp.name, target.function, args);
      if (options.allocations() != before) fail(report, target, "allocates", args);
    };
    for (const Spec& spec : verifier_specs()) {
      const Case call = cases::make_case(spec);
      for_each_target(report, options, call.args, [&](const Subject& target) {
        ++report.calls;
        verify(target, call.args);
      });
    }
    // The dispatch's own switch must be content, too.
    const ScopedPolicy checked({.check_verifiers = true});
    for (const Spec& spec : few_specs_of<Args>()) {
      const Case call = cases::make_case(spec);
      for_each_target(report, options, call.args, [&](const Subject& target) {
        if (!target.ask(call.args).takes()) return;
        try {
          (void)target.run(call.args);
        } catch (const BackendError& error) {
          fail(report, target, std::string("with FLA_CHECK_VERIFIERS: ") + error.what(), call.args);
        }
      });
    }
  }

  /// Checkpoints are as the reference has them, and those that no sequence reaches keep what they hold. Of
  /// an original kernel whose chunks end where checkpoints are, they change no bit of the results and have
  /// those of calls that end there.
  static void check_checkpoints(Report& report, const Options& options) {
    constexpr std::int64_t kChunks = 64;  // a multiple of the chunks of all original kernels
    for (const std::int64_t every : {kChunks, std::int64_t{7}}) {
      const Spec spec{.H = 1,
                      .HV = 2,
                      .lengths = {140, 0, 7, 64},
                      .options = {.output_final_state = true, .checkpoint_every = every},
                      .checkpoints = 3};
      for_each_target(report, options, CheckedCall(spec).args(), [&](const Subject& target) {
        const CheckedCall call(spec);  // with checkpoints that nobody has written
        const Args& args = call.args();
        if (!takes(report, target, args)) return;
        const RecurrenceResult result = target.run(args);
        const std::string wrong = disagreement(result, call.reference(), args, target.precision());
        if (!wrong.empty()) fail(report, target, wrong, args);
        if (!cases::rest_holds(args.checkpoints, call.reference(), 0.125))
          fail(report, target, "wrote a checkpoint that no sequence reaches", args);
        if (target.backend != "original" || every % kChunks != 0) return;
        Args plain = args;
        plain.checkpoint_every = {}, plain.checkpoints = {};
        if (!same_bits(result, target.run(plain)))
          fail(report, target, "has other bits with checkpoints than without", args);
        for (std::int64_t i = 0; i < call.reference().kept[0]; ++i) {
          Args part = alone(plain, 0);
          cases::for_each_token_tensor(
              part, [&](TensorView& tensor) { tensor = tensor.slice(1, 0, (i + 1) * every); });
          if (!same_bytes(target.run(part).final_state, args.checkpoints.slice(0, 0, 1).slice(1, i, 1)))
            fail(report, target, "has a checkpoint of other bits than the state of a call that ends there",
                 args);
        }
      });
    }
    if (report.calls == 0) report.refusals.emplace_back("takes no call with checkpoints");
  }

  /// Checkpoints that go into slots of a pool which is updated in place, also of steps of a few drafts that
  /// start where the last one's were accepted, are as the reference has them. Other slots keep what they
  /// hold.
  static void check_kept_states(Report& report, const Options& options) {
    std::vector<Spec> specs;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      specs.push_back({.B = 6, .T = 4, .H = 2, .HV = 4, .dtype = dtype, .pool = 40});
      specs.push_back({.B = 3, .T = 8, .H = 1, .K = 128, .V = 128, .dtype = dtype, .pool = 30});
      specs.push_back({.H = 2, .K = 48, .V = 80, .lengths = {3, 0, 7, 1, 2}, .dtype = dtype, .pool = 30});
      specs.push_back({.H = 1, .HV = 2, .lengths = {140, 0, 7, 64}, .dtype = dtype, .pool = 20});
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Spec& spec = specs[i];
      const bool drafts = i % 4 != 3;
      spec.options.checkpoint_every = drafts ? 1 : 64;
      spec.options.state_v_first = i % 3 == 1;
      spec.state_dtype = i % 5 == 3 ? DType::bf16 : DType::f32;
      spec.index_dtype = i % 2 == 0 ? DType::i32 : DType::i64;
      spec.checkpoint_indices = true;
      spec.accepted_tokens = drafts && i != 1;
      spec.write_indices = i % 4 == 2;
      spec.checkpoints = i % 4 == 1 ? 8 : 4;
    }
    for (const Spec& spec : specs) {
      const auto in_place = [&] {
        Case call = cases::make_case(spec);
        call.args.initial_state = call.args.final_state;
        return call;
      };
      for_each_target(report, options, in_place().args, [&](const Subject& target) {
        const Case call = in_place();
        if (!takes(report, target, call.args)) return;
        const cases::Reference reference = cases::reference_of(call.args);
        const LaidOut before = LaidOut::copy_of(call.args.final_state);
        const RecurrenceResult result = target.run(call.args);
        const std::string wrong = disagreement(result, reference, call.args, target.precision());
        if (!wrong.empty()) fail(report, target, wrong, call.args);
        for (std::int64_t slot = 0; slot < *spec.pool; ++slot) {
          if (std::ranges::find(reference.slots, slot) != reference.slots.end()) continue;
          if (!same_bytes(result.final_state.view().slice(0, slot, 1), before.view().slice(0, slot, 1)))
            fail(report, target, "wrote a slot that it was not told to", call.args);
        }
      });
    }
    if (report.calls == 0) report.refusals.emplace_back("takes no call with checkpoint_indices");
  }

  /// Packed sequences that end before T: outputs behind them are zeros, and nothing is read there. With
  /// cu_seqlens on a device they are not written.
  static void check_padding(Report& report, const Options& options) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::vector<std::int64_t>& lengths :
           std::vector<std::vector<std::int64_t>>{{70, 0, 33, 20}, {0, 9}}) {
        const Case call = cases::make_case(Spec{.H = 1, .HV = 2, .lengths = lengths, .dtype = dtype});
        Args args = without_last_sequence(call.args);
        const LaidOut out(args.v.shape(), dtype, Layout::padded(4));
        args.out = out;
        const cases::Reference reference = cases::reference_of(args);
        for_each_target(report, options, args, [&](const Subject& target) {
          const bool read_by_kernels = !options.device.is_cpu() && target.indices == DeviceIndices::on_device;
          if (read_by_kernels || !takes(report, target, args)) return;
          const RecurrenceResult result = target.run(args);
          const std::string wrong = disagreement(result, reference, args, target.precision());
          if (!wrong.empty()) fail(report, target, wrong, args);
          if (!has_empty_padding(result.o, args))
            fail(report, target, "has outputs behind the last sequence that are not zero", args);
          if (!out.intact_around()) fail(report, target, "wrote around out", args);
        });
      }
    }
    if (report.calls > 0) return;
    report.skipped = excuse(report, options);
    if (report.skipped.empty()) report.refusals.emplace_back("takes no packed call");
  }

  /// A check of any op, of kda.
  template <void (*check)(const SearchedOp&, Report&, const Options&)>
  static void search(Report& report, const Options& options) {
    if (!has_nothing(report, options)) check(searched_recurrence<Args>(), report, options);
    expect_some_calls(report, options);
  }

  static constexpr std::array kChecks{
      Check{"arguments", search<check_arguments_one_at_a_time>},
      Check{"arguments_together", search<check_arguments_together>},
      Check{"ranges", search<check_ranges>},
      Check{"causality", search<check_causality>},
      Check{"golden", check_golden},
      Check{"random", check_random},
      Check{"same_bits_twice", check_same_bits_twice},
      Check{"same_bits_with_any_threads", check_same_bits_with_any_threads},
      Check{"same_bits_in_any_batch", check_same_bits_in_any_batch},
      Check{"batch_invariance", check_batch_invariance},
      Check{"poison_around", check_poison_around},
      Check{"leftovers", check_leftovers},
      Check{"state_in_place", check_state_in_place},
      Check{"state_pool_by_index", check_state_pool},
      Check{"empty_calls", check_empty_calls},
      Check{"refusals_have_reasons", check_refusals_have_reasons},
      Check{"verifier_is_pure", check_verifier_is_pure},
      Check{"checkpoints", check_checkpoints},
      Check{"kept_states", check_kept_states},
      Check{"padding", check_padding},
      Check{"gradients", check_gradients<Args>},
      Check{"rings", check_rings<Args>},
      Check{"summaries", check_summaries<Args>},
  };
};

}  // namespace

template <RecurrenceArgs Args>
std::span<const Check> recurrence_checks() {
  return Checks<Args>::kChecks;
}

#define FLA_OP(NAME, ARGS) template std::span<const Check> recurrence_checks<ARGS>();
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
