#include "fla/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/core/dlpack_abi.h"
#include "fla/core/version.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/ops/merge/merge_call.h"
#include "tests/ops/recurrence/gradient_checks.h"
#include "tests/ops/step/step_call.h"
#include "tools/cases/backward_case.h"

/// An op that is not the library's, with a function that C can call and one that it cannot.
namespace fla_test {

#define FLA_TWICE_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG) \
  TENSOR(x, required, fla::kFloatTypes, "B T H K", "what is doubled")     \
  INTEGER(times, "how often")                                             \
  OUTPUT(out, fla::kFloatTypes, "B T H K", "", "memory for the result")

struct TwiceArgs {
  using Result = fla::StageResult;
  FLA_ARGUMENT_MEMBERS(FLA_TWICE_ARGUMENTS)
  fla::Stream stream{};
  static fla::ArgumentTable arguments() { FLA_RETURN_ARGUMENT_TABLE(TwiceArgs, FLA_TWICE_ARGUMENTS); }
};

struct CountedArgs {
  using Result = std::int64_t;
};

fla::StageResult twice(const TwiceArgs& args);
std::int64_t counted_tokens(const CountedArgs& args);
namespace original {
fla::StageResult twice(const TwiceArgs& args);
std::int64_t counted_tokens(const CountedArgs& args);
}  // namespace original

DISPATCH("c_api_test", fla::StageResult, twice, const TwiceArgs& args) {
  fla::Tensor out = fla::Tensor::empty(args.x.shape(), fla::DType::f32);
  for (std::int64_t i = 0; i < out.numel(); ++i)
    out.as<float>()[i] = std::ldexp(args.x.as<float>()[i], static_cast<int>(args.times.value_or(1)));
  return {out};
}
DISPATCH("c_api_test", std::int64_t, counted_tokens, const CountedArgs&) { return 0; }

}  // namespace fla_test

namespace {

using fla::ArgumentKind;
using fla::Tensor;
using fla::TensorView;
using fla_test::same_bits;
using testing::HasSubstr;

/// A view as C programs have it.
struct CTensor {
  explicit CTensor(const TensorView& view)
      : shape(view.shape().begin(), view.shape().end()),
        strides(view.strides().begin(), view.strides().end()) {
    const fla::dlpack::DataType type = fla::dlpack::datatype_of(view.dtype());
    tensor = {view.data(),
              {kDLCPU, 0},
              static_cast<std::int32_t>(shape.size()),
              {type.code, type.bits, type.lanes},
              shape.data(),
              strides.data(),
              0};
  }
  CTensor(const CTensor&) = delete;

  std::vector<std::int64_t> shape, strides;
  DLTensor tensor;
};

/// A call through the C functions: the arguments that a struct of C++ has, by the rows of its table.
struct CCall {
  std::deque<CTensor> tensors;
  std::deque<std::string> given;
  std::vector<fla_argument> arguments;
  std::vector<std::string> names;  ///< of the results that are not given memory

  template <class Args>
  explicit CCall(const Args& args) {
    for (const fla::Argument& argument : Args::arguments()) {
      if (is_result(Args::arguments(), argument) && !argument.given(&args)) names.emplace_back(argument.name);
      if (!argument.given(&args)) continue;
      const char* name = given.emplace_back(argument.name).c_str();
      switch (argument.kind) {
        case ArgumentKind::number: arguments.push_back(fla_number(name, *argument.number(&args))); break;
        case ArgumentKind::integer: arguments.push_back(fla_integer(name, *argument.integer(&args))); break;
        case ArgumentKind::flag:
          // Listing the result says it.
          if (!argument.name.starts_with("output_")) arguments.push_back(fla_flag(name, 1));
          break;
        default: arguments.push_back(fla_tensor(name, &tensors.emplace_back(argument.tensor(&args)).tensor));
      }
    }
  }

  fla_argument& argument(std::string_view name) {
    for (fla_argument& each : arguments) {
      if (each.name == name) return each;
    }
    throw std::logic_error(std::string(name));
  }
  CTensor& tensor(std::string_view name) {
    for (CTensor& each : tensors) {
      if (&each.tensor == argument(name).value.tensor) return each;
    }
    throw std::logic_error(std::string(name));
  }

  /// The results by their names.
  std::map<std::string, Tensor> run(const char* function, const fla_options* options = nullptr) const {
    std::vector<fla_result> results;
    for (const std::string& name : names) results.push_back({name.c_str(), nullptr});
    const fla_status status =
        fla_call(function, arguments.data(), arguments.size(), results.data(), results.size(), options);
    EXPECT_EQ(status, FLA_OK) << function << ": " << fla_last_error();
    std::map<std::string, Tensor> found;
    for (const fla_result& result : results) {
      if (result.tensor != nullptr) found[result.name] = Tensor::from_dlpack(result.tensor);
    }
    return found;
  }

  /// Code and text of a call that fails.
  std::string refusal(const char* function = "kda.chunk_kda", const fla_options* options = nullptr) const {
    fla_result result{names.empty() ? "out" : names.front().c_str(), nullptr};
    const fla_status status = fla_call(function, arguments.data(), arguments.size(), &result, 1, options);
    EXPECT_EQ(result.tensor, nullptr);
    return std::to_string(status) + " " + fla_last_error();
  }
};

template <class Args>
void expect_same(const std::string& name, const Args& args, typename Args::Result (*function)(const Args&)) {
  typename Args::Result expected = function(args);
  std::map<std::string, Tensor> found = CCall(args).run(name.c_str());
  visit_results(expected, [&](std::string_view result, const Tensor& tensor) {
    const Tensor& returned = found[std::string(result)];
    ASSERT_EQ(returned.defined(), tensor.defined()) << name << ": " << result;
    if (!tensor.defined()) return;
    EXPECT_EQ(returned.view().describe(), tensor.view().describe()) << name << ": " << result;
    EXPECT_TRUE(same_bits(returned, tensor)) << name << ": " << result;
  });
}

/// Likewise of a step, which no call can take twice. Returns its name.
template <class Args>
std::string expect_same_step(const std::string& name, fla::StepResult (*function)(const Args&)) {
  const fla_test::StepCall<Args> here({}), there({});
  Args without = there.args;
  without.out = {};
  (void)function(here.args);
  EXPECT_TRUE(same_bits(CCall(without).run(name.c_str())["out"], here.out)) << name;
  EXPECT_TRUE(same_bits(there.state, here.state)) << name;
  EXPECT_TRUE(same_bits(there.conv_state, here.conv_state)) << name;
  return name;
}

template <class Args>
fla::cases::CaseSpec<Args> some_call() {
  fla::cases::CaseSpec<Args> spec{.T = 41, .H = 2, .HV = 4, .K = 12, .V = 20};
  spec.initial_state = true;
  spec.options.output_final_state = true;
  return spec;
}

/// The same tokens over a ring that is empty, and a fold of it. Calls change no index, so that a step can be
/// taken again.
template <class Args>
struct RingCalls {
  static constexpr std::int64_t kTokens = 16;
  Tensor begin = Tensor::empty({1}, fla::DType::i64), end = Tensor::empty({1}, fla::DType::i64);
  std::vector<Tensor> rings;
  typename Args::Replay replay;
  typename Args::Fold fold;

  explicit RingCalls(const Args& args)
      : replay(fla::arguments_like<typename Args::Replay>(args)),
        fold(fla::arguments_like<typename Args::Fold>(args)) {
    *begin.as<std::int64_t>() = *end.as<std::int64_t>() = 0;
    replay.state = args.initial_state, replay.ring_begin = begin, replay.ring_end = end;
    replay.ring_k = ring_like(args.k), replay.ring_u = ring_like(args.v);
    if constexpr (requires { replay.ring_g; }) {
      if (args.g.defined()) replay.ring_g = ring_like(args.g);
    }
    if constexpr (requires { replay.ring_b; })
      replay.ring_b = ring_like(args.b), replay.ring_w = ring_like(args.v);
    fla::copy_arguments(Args::Replay::arguments(), &replay, Args::Fold::arguments(), &fold);
  }

  TensorView ring_like(const TensorView& tokens) {
    std::vector<std::int64_t> shape(tokens.shape().begin(), tokens.shape().end());
    shape[1] = kTokens;
    return rings.emplace_back(fla_test::filled(shape, fla::DType::f32, 1, -1, 1));
  }
};

std::set<std::string> all_functions() {
  char* json = nullptr;
  EXPECT_EQ(fla_functions(&json), FLA_OK) << fla_last_error();
  std::set<std::string> names;
  const nlohmann::json parsed = nlohmann::json::parse(json);
  for (const nlohmann::json& function : parsed["functions"]) {
    if (!function["name"].get<std::string>().starts_with("c_api_test.")) names.insert(function["name"]);
  }
  fla_free(json);
  return names;
}

TEST(CApi, EveryFunctionOfEveryOpHasTheBitsOfTheCppCall) {
  std::set<std::string> called;
  const auto expect = [&called](const std::string& op, const std::string& function, const auto& args,
                                auto* by_name) {
    called.insert(op + "." + function);
    expect_same(op + "." + function, args, by_name);
  };
#define FLA_OP(NAME, ARGS)                                                               \
  {                                                                                      \
    const fla::cases::BackwardCase<fla::ARGS> made(some_call<fla::ARGS>());              \
    const fla::ARGS& forward = made.forward.args;                                        \
    expect(#NAME, "chunk_" #NAME, forward, &fla::chunk_##NAME);                          \
    expect(#NAME, "fused_recurrent_" #NAME, forward, &fla::fused_recurrent_##NAME);      \
    expect(#NAME, "chunk_" #NAME "_backward", made.args, &fla::chunk_##NAME##_backward); \
    auto step = some_call<fla::ARGS>();                                                  \
    step.T = 3;                                                                          \
    const auto tokens = fla::cases::make_case(step);                                     \
    const RingCalls<fla::ARGS> over_ring(tokens.args);                                   \
    expect(#NAME, "replay_" #NAME, over_ring.replay, &fla::replay_##NAME);               \
    expect(#NAME, "fold_" #NAME, over_ring.fold, &fla::fold_##NAME);                     \
    auto summary = fla::arguments_like<fla::ARGS::Summary>(made.args);                   \
    summary.output_P = true;                                                             \
    expect(#NAME, #NAME "_summary", summary, &fla::NAME##_summary);                      \
    expect_same(#NAME, forward, &fla::NAME);                                             \
    expect_same(#NAME "." #NAME, forward, &fla::NAME);                                   \
  }
  FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
  const Tensor x = fla_test::filled({1, 8, 2, 4}, fla::DType::f32, 1, -1, 1),
               rate = fla_test::filled({2}, fla::DType::f32, 2, -1, 1);
  expect("common", "l2_norm", fla::L2NormArgs{.x = x}, &fla::common::l2_norm);
  expect("common", "gate", fla::GateArgs{.g = x, .lower_bound = -5.0f, .A_log = rate}, &fla::common::gate);
  expect("common", "solve_tril", fla::SolveTrilArgs{.A = x}, &fla::common::solve_tril);
  const Tensor channels = fla_test::filled({2, 8, 6}, fla::DType::f32, 3, -1, 1),
               taps = fla_test::filled({6, 4}, fla::DType::f32, 4, -1, 1);
  expect("short_conv", "short_conv",
         fla::ShortConvArgs{.x = channels, .weight = taps, .output_final_state = true, .use_silu = true},
         &fla::short_conv);
  expect("gated_rms_norm", "gated_rms_norm", fla::GatedRmsNormArgs{.x = x, .g = x, .eps = 1e-5f},
         &fla::gated_rms_norm);
  const fla_test::MergeCall merged({});
  expect("merge", "merge", merged.args, &fla::merge);
  called.insert(expect_same_step("kda_step.kda_step", &fla::kda_step));
  called.insert(expect_same_step("gated_delta_rule_step.gated_delta_rule_step", &fla::gated_delta_rule_step));
  EXPECT_EQ(called, all_functions());
}

/// A call of kda that is right.
struct CApiOfKda : testing::Test {
  fla::cases::RandomCase<fla::KdaArgs> made = make_case(some_call<fla::KdaArgs>());
  CCall call{made.args};
};

TEST_F(CApiOfKda, WritesIntoMemoryThatTheCallerGives) {
  const fla::KdaResult expected = fla::chunk_kda(made.args);
  const Tensor out = Tensor::zeros(expected.o.shape(), fla::DType::f32);
  const Tensor state = copy_to(made.args.initial_state, {});
  fla::KdaArgs args = made.args;
  args.out = out;
  args.initial_state = args.final_state = state;  // in place
  const CCall given(args);
  EXPECT_TRUE(given.names.empty());
  EXPECT_TRUE(given.run("kda.chunk_kda").empty());
  EXPECT_TRUE(same_bits(out, expected.o) && same_bits(state, expected.final_state));
}

TEST_F(CApiOfKda, TakesPackedSequencesAndSlotsOfAPool) {
  const Tensor tokens = fla_test::filled({1, 6, 2, 8}, fla::DType::f32, 3, -1, 0),
               beta = fla_test::filled({1, 6, 2}, fla::DType::f32, 4, 0, 1);
  const std::vector<std::int32_t> starts{0, 4, 6}, slots{3, 1};
  const Tensor pool = Tensor::zeros({4, 2, 8, 8}, fla::DType::f32),
               copy = Tensor::zeros({4, 2, 8, 8}, fla::DType::f32);
  fla::KdaArgs args{.q = tokens,
                    .k = tokens,
                    .v = tokens,
                    .g = tokens,
                    .beta = beta,
                    .initial_state = pool,
                    .use_qk_l2norm_in_kernel = true};
  args.cu_seqlens = {starts.data(), fla::DType::i32, {3}};
  args.state_indices = {slots.data(), fla::DType::i32, {2}};
  args.final_state = pool;
  const std::map<std::string, Tensor> found = CCall(args).run("kda");
  args.initial_state = args.final_state = copy;
  EXPECT_TRUE(same_bits(found.at("out"), fla::kda(args).o));
  EXPECT_TRUE(same_bits(pool, copy));
}

TEST_F(CApiOfKda, ComputesTheGradientsThatAreAskedFor) {
  const fla::cases::BackwardCase<fla::KdaArgs> backward(some_call<fla::KdaArgs>());
  const fla::RecurrenceGradients expected = fla::chunk_kda_backward(backward.args);
  fla::KdaBackwardArgs args = backward.args;
  const Tensor dk = Tensor::zeros(expected.dk.shape(), fla::DType::f32);
  args.dk = dk;
  CCall asked(args);
  asked.names = {"dq", "dA_log"};  // the second belongs to an input that the call does not have
  const std::map<std::string, Tensor> found = asked.run("kda.chunk_kda_backward");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(same_bits(found.at("dq"), expected.dq) && same_bits(dk, expected.dk));
}

TEST_F(CApiOfKda, RunsOnTheBackendThatTheOptionsName) {
  fla_options options = FLA_OPTIONS_INIT;
  options.backend = "original";
  EXPECT_TRUE(
      same_bits(call.run("kda.chunk_kda", &options).at("out"), fla::original::chunk_kda(made.args).o));
  options.backend = "nobody";
  EXPECT_THAT(call.refusal("kda.chunk_kda", &options), HasSubstr("2 "));
  EXPECT_THAT(call.refusal("kda.chunk_kda", &options), HasSubstr("nobody"));
  options.backend = "cpu_simd";
  call.tensor("initial_state").tensor.dtype = {kDLBfloat, 16, 1};
  EXPECT_EQ(call.refusal("kda.chunk_kda", &options).substr(0, 2), "3 ");
}

TEST_F(CApiOfKda, ExplainsACall) {
  char* text = nullptr;
  const auto explain = [&](fla_format format, const fla_options* options = nullptr) -> std::string {
    if (fla_explain("kda", call.arguments.data(), call.arguments.size(), options, format, &text) != FLA_OK)
      return fla_last_error();
    std::string copy = text;
    fla_free(text);
    return copy;
  };
  EXPECT_EQ(explain(FLA_TEXT), fla::explain("kda", "kda", made.args).text());
  EXPECT_EQ(explain(FLA_JSON), fla::explain("kda", "kda", made.args).json());
  fla_options options = FLA_OPTIONS_INIT;
  options.backend = "original";
  EXPECT_EQ(nlohmann::json::parse(explain(FLA_JSON, &options))["selected"], "original");
  EXPECT_EQ(explain(0), "format: expected FLA_TEXT or FLA_JSON, got 0");
  fla_free(nullptr);
}

TEST_F(CApiOfKda, SaysHowMuchWorkspaceACallWants) {
  std::size_t bytes = 1;
  EXPECT_EQ(fla_workspace_size("kda.chunk_kda", call.arguments.data(), call.arguments.size(), &bytes),
            FLA_OK);
  EXPECT_EQ(bytes, 0u);  // on the CPU
  EXPECT_EQ(fla_workspace_size("kda.chunk_kda", nullptr, 0, &bytes), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "kda: q: expected a tensor of shape [B, T, H, K], got none");
}

TEST_F(CApiOfKda, RefusesNamesThatDoNotExist) {
  EXPECT_EQ(call.refusal("kda.chunk"),
            "1 function: expected one of chunk_kda, fused_recurrent_kda, chunk_kda_backward, replay_kda, "
            "fold_kda, kda_summary, got 'chunk'");
  EXPECT_THAT(call.refusal("kdaa"),
              testing::MatchesRegex("1 op: expected one of c_api_test, common, .*, got 'kdaa'"));
  EXPECT_EQ(call.refusal("kda."), "1 name: expected op.function or an op, got 'kda.'");
  call.arguments.push_back(fla_flag("use_l2norm_in_kernel", 1));
  EXPECT_THAT(call.refusal(), HasSubstr("1 kda: use_l2norm_in_kernel: is no argument of kda.chunk_kda"));
  call.arguments.back().name = "bta";
  EXPECT_EQ(call.refusal(), "1 kda: bta: is no argument of kda.chunk_kda; did you mean 'beta'?");
  call.arguments.pop_back();
  call.names = {"o"};
  EXPECT_EQ(call.refusal(), "1 kda: results: expected names of results, got 'o' (known: out, final_state)");
  call.names = {"checkpoints"};
  EXPECT_EQ(call.refusal(),
            "1 kda: results: expected names of results, got 'checkpoints' (known: out, final_state)");
}

TEST_F(CApiOfKda, RefusesArgumentsOfAnotherKind) {
  fla_argument& scale = call.arguments.emplace_back(fla_flag("scale", 1));
  EXPECT_EQ(call.refusal(), "1 kda: scale: expected a number, got a flag");
  scale = fla_integer("scale", 1);
  EXPECT_EQ(call.refusal(), "1 kda: scale: expected a number, got an integer");
  scale.kind = 77;
  EXPECT_EQ(call.refusal(), "1 kda: scale: expected a number, got kind 77");
  scale = fla_number("checkpoint_every", 2);
  EXPECT_EQ(call.refusal(), "1 kda: checkpoint_every: expected an integer, got a number");
  scale = fla_number("state_v_first", 1);
  EXPECT_EQ(call.refusal(), "1 kda: state_v_first: expected a flag, got a number");
  scale = fla_flag("state_v_first", 2);
  EXPECT_EQ(call.refusal(), "1 kda: state_v_first: expected 0 or 1, got 2");
  scale = fla_number("scale", 1e300);
  EXPECT_EQ(call.refusal(), "1 kda: scale: expected a finite number, got inf");
  scale = fla_tensor("scale", &call.tensor("q").tensor);
  EXPECT_EQ(call.refusal(), "1 kda: scale: expected a number, got a tensor");
  call.argument("q") = fla_number("q", 1);
  EXPECT_EQ(call.refusal(), "1 kda: q: expected a tensor, got a number");
}

TEST_F(CApiOfKda, RefusesTensorsThatAreWrong) {
  DLTensor& k = call.tensor("k").tensor;
  const DLTensor right = k;
  call.tensor("k").shape[3] = 11;
  EXPECT_EQ(call.refusal(), "1 kda: k: expected shape [B=1, T=41, H=2, K=12], got [1, 41, 2, 11]");
  call.tensor("k").shape[3] = -1;
  EXPECT_THAT(call.refusal(), HasSubstr("1 kda: k: "));
  call.tensor("k").shape[3] = 12;
  k.dtype.bits = 64;
  EXPECT_EQ(call.refusal(),
            "1 kda: k: expected bf16, f16, f32, i32 or i64, got type code 2 of 64 bits and 1 lanes");
  k = right;
  k.device.device_id = -3;
  k.device.device_type = kDLCUDA;
  EXPECT_EQ(call.refusal(), "1 kda: k: expected a CPU or CUDA tensor, got device type 2 and index -3");
  k = right;
  k.ndim = 9;
  EXPECT_EQ(call.refusal(), "1 kda: k: expected 0 to 5 dimensions, got 9");
  k = right;
  k.byte_offset = 1;
  EXPECT_EQ(call.refusal(), "1 kda: k: expected elements at addresses that are multiples of their size");
  k = right;
  k.shape = nullptr;
  EXPECT_EQ(call.refusal(), "1 kda: k: expected a shape of 4 dimensions, got a null pointer");
  k = right;
  k.data = nullptr;
  EXPECT_THAT(call.refusal(), HasSubstr("1 kda: k: expected "));
}

TEST_F(CApiOfKda, RefusesNullPointers) {
  EXPECT_EQ(call.refusal(nullptr), "1 function: expected the name of a function, got a null pointer");
  call.arguments[1].name = nullptr;
  EXPECT_EQ(call.refusal(), "1 kda: arguments[1]: expected a name, got a null pointer");
  call.arguments[1] = fla_tensor("k", nullptr);
  EXPECT_EQ(call.refusal(), "1 kda: k: expected a tensor, got a null pointer");
  fla_result unnamed{nullptr, nullptr};
  EXPECT_EQ(fla_call("kda", nullptr, 0, &unnamed, 1, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "kda: results[0]: expected a name, got a null pointer");
  EXPECT_EQ(fla_call("kda", nullptr, 2, &unnamed, 1, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "arguments: expected 2 entries, got a null pointer");
  EXPECT_EQ(fla_call("kda", nullptr, 0, nullptr, 1, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "results: expected 1 entry, got a null pointer");
  EXPECT_EQ(fla_explain("kda", nullptr, 0, nullptr, FLA_TEXT, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "text: expected a place for the text, got a null pointer");
  EXPECT_EQ(fla_workspace_size("kda", nullptr, 0, nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "bytes: expected a place for the size, got a null pointer");
  EXPECT_EQ(fla_functions(nullptr), FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "json: expected a place for the text, got a null pointer");
}

TEST_F(CApiOfKda, RefusesWhatIsMissingOrGivenTwice) {
  const fla_argument q = call.arguments.front();
  call.arguments.push_back(q);
  EXPECT_EQ(call.refusal(), "1 kda: q: expected once, got twice");
  call.arguments.pop_back();
  call.arguments.erase(call.arguments.begin());
  EXPECT_EQ(call.refusal(), "1 kda: q: expected a tensor of shape [B, T, H, K], got none");
  call.arguments.push_back(q);
  EXPECT_EQ(fla_call("kda", call.arguments.data(), call.arguments.size(), nullptr, 0, nullptr),
            FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(),
               "kda: results: expected one of out, final_state at least, or memory for it, got none");
  fla_result twice[] = {{"out", nullptr}, {"out", nullptr}};
  EXPECT_EQ(fla_call("kda", call.arguments.data(), call.arguments.size(), twice, 2, nullptr),
            FLA_INVALID_ARGUMENT);
  EXPECT_STREQ(fla_last_error(), "kda: results: expected each name once, got 'out' twice");
  const Tensor out = Tensor::zeros(made.args.v.shape(), fla::DType::f32);
  const CTensor memory(out);
  call.arguments.push_back(fla_tensor("out", &memory.tensor));
  EXPECT_EQ(call.refusal(), "1 kda: out: expected memory for it or its name among the results, got both");
}

TEST_F(CApiOfKda, OptionsMayGrow) {
  struct {
    fla_options known = FLA_OPTIONS_INIT;
    std::uint64_t later = 0;
  } options;
  options.known.size = sizeof(options);
  EXPECT_EQ(call.run("kda", &options.known).size(), 2u);
  options.later = 1;
  EXPECT_EQ(call.refusal("kda", &options.known),
            "1 options: expected what version 1 has, got an option of a later one at byte 40");
  options.known.backend = "not read";
  options.known.size = offsetof(fla_options, backend);
  EXPECT_EQ(call.run("kda", &options.known).size(), 2u);
  options.known.size = 0;
  EXPECT_EQ(call.refusal("kda", &options.known), "1 options: expected size to be sizeof(fla_options), got 0");
}

TEST(CApi, CallsFunctionsThatAreNotTheLibrarys) {
  const Tensor x = fla_test::filled({1, 2, 1, 2}, fla::DType::f32, 5, -1, 1);
  fla_test::TwiceArgs args{.x = x};
  args.times = 3;
  CCall call(args);
  const std::map<std::string, Tensor> found = call.run("c_api_test.twice");
  EXPECT_EQ(found.at("out").as<float>()[1], 8 * x.as<float>()[1]);
  EXPECT_EQ(call.refusal("c_api_test.counted_tokens"),
            "1 function: expected one that takes and returns tensors, got 'c_api_test.counted_tokens'");
  EXPECT_EQ(call.refusal("c_api_test"),
            "1 function: expected one of twice, counted_tokens, got 'c_api_test'");
}

TEST(CApi, EachThreadHasErrorsOfItsOwn) {
  EXPECT_EQ(fla_functions(nullptr), FLA_INVALID_ARGUMENT);
  const std::string mine = fla_last_error();
  std::string before, after;
  std::thread([&] {
    before = fla_last_error();
    EXPECT_EQ(fla_workspace_size("kda", nullptr, 0, nullptr), FLA_INVALID_ARGUMENT);
    after = fla_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "bytes: expected a place for the size, got a null pointer");
  EXPECT_EQ(fla_last_error(), mine);
}

TEST(CApi, KnowsItsVersion) {
  EXPECT_EQ(fla_c_api_version(), FLA_C_API_VERSION);
  EXPECT_EQ(fla_version(), fla::kVersion);
}

}  // namespace
