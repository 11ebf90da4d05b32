#include "tools/conformance/searched_recurrence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fla/ops/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/contents.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/op_target.h"

namespace fla::conformance {
namespace {

/// Those of all ops; an op has the ones whose arguments it has.
constexpr std::array kRequirements{
    Requirement{"use_gate_in_kernel", true, "A_log", true},
    Requirement{"A_log", true, "use_gate_in_kernel", true},
    Requirement{"A_log", false, "use_gate_in_kernel", true},
    Requirement{"A_log", false, "lower_bound", true},
    Requirement{"dt_bias", true, "use_gate_in_kernel", true},
    Requirement{"dt_bias", false, "use_gate_in_kernel", true},
    Requirement{"lower_bound", true, "use_gate_in_kernel", true},
    Requirement{"lower_bound", false, "use_gate_in_kernel", true},
    Requirement{"lower_bound", false, "A_log", true},
    Requirement{"lower_bound", false, "safe_gate", false},
    Requirement{"safe_gate", true, "lower_bound", true},
    Requirement{"safe_gate", false, "lower_bound", true},
    Requirement{"use_gate_in_kernel", false, "A_log", false},
    Requirement{"use_gate_in_kernel", false, "dt_bias", false},
    Requirement{"use_gate_in_kernel", false, "lower_bound", false},
    Requirement{"use_gate_in_kernel", false, "safe_gate", false},
    Requirement{"allow_neg_eigval", false, "use_beta_sigmoid_in_kernel", true},
    Requirement{"output_final_state", false, "final_state", false},
    Requirement{"final_state", true, "output_final_state", true},
    Requirement{"state_indices", true, "initial_state", true},
    Requirement{"state_indices", true, "final_state", true},
    Requirement{"state_write_indices", false, "state_indices", true},
    Requirement{"initial_state", false, "state_indices", false},
    Requirement{"checkpoint_indices", true, "state_indices", true},
    Requirement{"checkpoint_indices", true, "checkpoints", false},
    Requirement{"state_indices", false, "checkpoint_indices", false},
    Requirement{"checkpoints", true, "checkpoint_indices", false},
    Requirement{"g", true, "g_gamma", false},
    Requirement{"g", false, "g_gamma", true},
    Requirement{"g_gamma", true, "g", false},
    Requirement{"g_gamma", false, "g", true},
    Requirement{"layer_idx", true, "num_layers", true},
};

bool has(ArgumentTable table, std::string_view name) { return find_argument(table, name) != nullptr; }

template <RecurrenceArgs Args>
class SearchedRecurrence final : public SearchedOp {
 public:
  SearchedRecurrence() {
    for (const Requirement& each : kRequirements) {
      if (has(Args::arguments(), each.argument) && has(Args::arguments(), each.other))
        requirements_.push_back(each);
    }
  }

  const cases::Op& op() const override { return cases::find_op(Args::kOp.name); }
  std::span<const Requirement> requirements() const override { return requirements_; }

  /// A call of one token, of a few and of some chunks, in every dtype: plain, without a state, and with all
  /// that a model leaves to the kernel.
  std::vector<std::vector<CallForm>> seeds() const override {
    constexpr std::array<std::array<std::int64_t, 2>, 12> channels{{{16, 16},
                                                                    {64, 64},
                                                                    {128, 128},
                                                                    {32, 32},
                                                                    {256, 256},
                                                                    {48, 80},
                                                                    {96, 96},
                                                                    {192, 192},
                                                                    {64, 128},
                                                                    {128, 64},
                                                                    {8, 8},
                                                                    {1, 1}}};
    const std::vector<std::vector<std::int64_t>> tokens{{1}, {3, 2, 4, 16}, {70, 64, 128}};
    std::vector<std::vector<CallForm>> groups;
    for (const std::vector<std::int64_t>& lengths : tokens) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        if (dtype == DType::f16 && lengths.front() != 3) continue;  // as bf16, at least that one
        std::vector<CallForm>& group = groups.emplace_back();
        for (const std::int64_t T : lengths) {
          for (const auto& [K, V] : channels) {
            for (const DType gates : {DType::f32, dtype}) {
              for (const int kind : {0, 1, 2}) group.push_back(seed(T, K, V, dtype, gates, kind));
              if (dtype == DType::f32) break;
            }
          }
        }
      }
    }
    return groups;
  }

  /// In two dtypes, with all that a model leaves to the kernel, and with tokens for several long sequences.
  std::vector<std::vector<CallForm>> long_seeds() const override {
    constexpr std::int64_t kLong = 2048;
    const auto group = [&](std::int64_t T, DType dtype, int kind) {
      return std::vector{seed(T, 16, 16, dtype, dtype, kind), seed(T, 64, 64, dtype, dtype, kind)};
    };
    return {group(kLong, DType::f32, 0), group(kLong, DType::bf16, 2), group(5 * kLong, DType::bf16, 0)};
  }

  std::vector<float> numbers(const Argument& argument) const override {
    if (argument.name == "scale") return {0.37f, -1.5f};
    if (argument.name == "layer_idx") return {0, 2};
    if (argument.name == "num_layers") return {3, 7};
    if (argument.name == "checkpoint_every") return {1, 16};
    return {-5.0f, -0.8f};
  }

  std::vector<std::int64_t> sizes(Axis axis) const override {
    switch (axis) {
      case Axis::B: return {1, 2};
      case Axis::T: return {2, 15, 17, 33, 65, 130};
      case Axis::H: return {1, 3};
      case Axis::HV: return {4, 6};
      case Axis::K:
      case Axis::V: return {1, 3, 24, 32, 48, 64, 80, 96, 100, 128, 192, 256};
      default: return {};
    }
  }

  void settle(CallForm& form) const override {
    const AxisSizes sizes = form.sizes();
    if (sizes[Axis::HV] % sizes[Axis::H] != 0) form[Axis::HV] = 2 * sizes[Axis::H];
    form["out"].dtype = form["v"].dtype;
    Choice& every = form["checkpoint_every"];
    if (every.number < 1 || form["num_accepted_tokens"].given) every.number = 1;
    if (every.given && !form["checkpoint_indices"].given) form["checkpoints"].given = true;
    if (!has(op().arguments, "layer_idx")) return;
    Choice &layer = form["layer_idx"], &layers = form["num_layers"];
    layer.given = layers.given = true;
    if (layers.number < 3) layers.number = 4;
  }

  /// Keys and queries of length 1 unless the kernel normalises them; gates that forget slowly enough for
  /// everything to be seen at the last token.
  void fill(const Argument& argument, const TensorView& tensor, const void* args,
            cases::Random& random) const override {
    const recurrence::Arguments call = recurrence::arguments_of(of(args));
    const std::string_view name = argument.name;
    double factor = 1;
    const bool key = name == "q" || name == "k", pair = name == "a" || name == "b";
    if ((key && !call.use_qk_l2norm_in_kernel) || pair)
      factor = (pair ? 0.7 : 1) / std::sqrt(static_cast<double>(tensor.size(3)));
    if (name == "initial_state") factor = 0.5;
    const bool decay = (name == "g" && !call.use_gate_in_kernel) || name == "g_gamma";
    const bool share = name == "beta" && !call.use_beta_sigmoid_in_kernel;
    const Contents contents = decay                   ? Contents::decays
                              : share                 ? Contents::shares
                              : call.normalize && key ? Contents::positive
                                                      : Contents::normal;
    fill_with(contents, factor, tensor, random);
  }

  /// o and the states are linear in v and the initial state, o is in q; a key that is 2^n times as long with
  /// a beta that is 2^2n times as small leaves a state that is 2^n times as small.
  std::vector<Scaling> scalings(const Target& target) const override {
    // Where v and the state before it are far apart in one chunk, 16-bit factors lose the smaller one:
    // flash_kda's final_state is off by 3e-2 at 2^20.
    const int apart = precision_of(Args::kOp.name, target.backend) == DType::f32 ? 60 : 16;
    std::vector<Scaling> all{
        {.name = "v and initial_state", .parts = {{"v", 1}, {"initial_state", 1}}},
        {.name = "v", .parts = {{"v", 1}}, .least = -apart, .most = apart},
        {.name = "v alone", .parts = {{"v", 1}}, .with = {{"initial_state", false}}},
        {.name = "initial_state", .parts = {{"initial_state", 1}}, .least = -apart, .most = apart},
        {.name = "q", .parts = {{"q", 1}}, .with = {{"use_qk_l2norm_in_kernel", false}}},
        {.name = "k and beta",
         .parts = {{"k", 1}, {"beta", -2}},
         .with = {{"use_qk_l2norm_in_kernel", false},
                  {"use_beta_sigmoid_in_kernel", false},
                  {"initial_state", false}},
         .least = -40,
         .most = 40},
        {.name = "k",
         .parts = {{"k", 1}},
         .with = {{"use_qk_l2norm_in_kernel", false}, {"initial_state", false}},
         .most = 0},
        {.name = "q and k before they are normalised",
         .parts = {{"q", 1}, {"k", 1}},
         .with = {{"use_qk_l2norm_in_kernel", true}},
         .least = -40,
         .most = 40}};
    std::erase_if(all, [](const Scaling& scaling) {
      const auto absent = [](std::string_view name) { return !has(Args::arguments(), name); };
      return std::ranges::any_of(scaling.parts, absent, &Scaling::Part::argument) ||
             std::ranges::any_of(scaling.with, [&](const Scaling::Given& given) {
               return given.given && absent(given.argument);
             });
    });
    for (Scaling& scaling : all) {
      std::erase_if(scaling.with,
                    [](const Scaling::Given& given) { return !has(Args::arguments(), given.argument); });
    }
    return all;
  }

  double tolerance(const void* args, const Target& target) const override {
    double most = cases::tolerance(precision_of(Args::kOp.name, target.backend));
    for (const TensorView* tensor : {&of(args).q, &of(args).k, &of(args).v})
      most = std::max(most, cases::tolerance(tensor->dtype()));
    return most;
  }

  std::shared_ptr<const void> expected(const void* args) const override {
    return std::make_shared<cases::Reference>(cases::reference_of(of(args)));
  }

  std::string wrong(const std::vector<cases::NamedTensor>& results, const void* expected, const void* args,
                    const Target& target) const override {
    const RecurrenceResult result{find(results, "o"), find(results, "final_state")};
    return disagreement(result, *static_cast<const cases::Reference*>(expected), of(args),
                        precision_of(Args::kOp.name, target.backend));
  }

  Answer ask(const Target& target, const void* args) const override {
    return op_target(target).ask(of(args));
  }

  std::vector<cases::NamedTensor> run(const Target& target, const void* args) const override {
    const auto [o, final_state] = op_target(target).run(of(args));
    std::vector<cases::NamedTensor> results{{"o", o}};
    if (final_state.defined()) results.push_back({"final_state", final_state});
    return results;
  }

 private:
  static const Args& of(const void* args) { return *static_cast<const Args*>(args); }

  CallForm seed(std::int64_t T, std::int64_t K, std::int64_t V, DType dtype, DType gates, int kind) const {
    CallForm form(op().arguments);
    form[Axis::B] = T > 16 ? 1 : 3;
    form[Axis::T] = T;
    form[Axis::H] = form[Axis::HV] = 2;
    form[Axis::K] = K;
    form[Axis::V] = V;
    form[Axis::C] = 3;
    for (const char* name : {"q", "k", "v"}) form[name].dtype = dtype;
    for (const char* name : {"g", "g_gamma", "beta"}) {
      if (has(op().arguments, name)) form[name].dtype = gates;
    }
    for (const char* name : {"a", "b"}) {
      if (has(op().arguments, name)) form[name].dtype = dtype;
    }
    if (has(op().arguments, "g_gamma")) give(form, kind == 1 ? "g_gamma" : "g", true, requirements_);
    if (kind != 1) give(form, "initial_state", true, requirements_);
    give(form, "output_final_state", true, requirements_);
    if (kind == 2) {
      if (has(op().arguments, "lower_bound")) form["lower_bound"].number = -5;
      for (const char* name :
           {"use_qk_l2norm_in_kernel", "use_beta_sigmoid_in_kernel", "dt_bias", "safe_gate"}) {
        if (has(op().arguments, name)) give(form, name, true, requirements_);
      }
    }
    settle(form);
    return form;
  }

  static OpTarget<Args> op_target(const Target& target) {
    using Indices = DeviceIndices;
    return {target.function, target.backend, target.device,
            target.indices_on_host ? Indices::on_host : Indices::on_device};
  }

  static Tensor find(const std::vector<cases::NamedTensor>& results, std::string_view name) {
    const auto found = std::ranges::find(results, name, &cases::NamedTensor::name);
    return found == results.end() ? Tensor() : found->tensor;
  }

  std::vector<Requirement> requirements_;
};

}  // namespace

template <RecurrenceArgs Args>
const SearchedOp& searched_recurrence() {
  static const SearchedRecurrence<Args> op;
  return op;
}

#define FLA_OP(NAME, ARGS) template const SearchedOp& searched_recurrence<ARGS>();
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
