#include "tools/conformance/searched_layer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fla/core/errors.h"
#include "fla/ops/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/layer_reference.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/child.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {
namespace {

/// What both have: normal numbers, x's dtype for the output, and a DeviceCall that stands for a call on
/// another device.
template <class OpArgs, typename OpArgs::Result (*function)(const OpArgs&)>
class SearchedLayerOp : public SearchedOp {
 public:
  using Args = OpArgs;
  explicit SearchedLayerOp(std::string_view name) : name_(name) {}

  const cases::Op& op() const override { return cases::find_op(name_); }
  void settle(CallForm& form) const override { form["out"].dtype = form["x"].dtype; }
  void fill(const Argument&, const TensorView& tensor, const void*, cases::Random& random) const override {
    for_each_offset(tensor, [&](std::int64_t offset) { cases::store(tensor, offset, random.normal()); });
  }
  double tolerance(const void* args, const Target& target) const override {
    return std::max(cases::tolerance(of(args).x.dtype()),
                    cases::tolerance(precision_of(name_, target.backend)));
  }
  std::shared_ptr<const void> expected(const void* args) const override {
    return std::make_shared<decltype(cases::reference_of(of(args)))>(cases::reference_of(of(args)));
  }

  Answer ask(const Target& target, const void* args) const override {
    if (target.device.is_cpu()) return SearchedOp::ask(target, args);
    const DeviceCall<Args> call = on_device(target, args);
    return SearchedOp::ask(target, &call.args());
  }
  std::vector<cases::NamedTensor> run(const Target& target, const void* args) const override {
    if (target.device.is_cpu()) return SearchedOp::run(target, args);
    note_progress(target.function + " [" + describe(of(args)) + "]");
    DeviceCall<Args> call = on_device(target, args);
    const ScopedPolicy policy(only(name_, target.backend));
    typename Args::Result result = call.bring_back(function(call.args()));
    if (!call.damage().empty()) throw Error(call.damage());
    std::vector<cases::NamedTensor> found;
    visit_results(result, [&](std::string_view output, const Tensor& tensor) {
      if (tensor.defined()) found.push_back({output == "out" ? "o" : std::string(output), tensor});
    });
    return found;
  }

 protected:
  /// A call of each dtype, of sizes that the op sets.
  template <class SetSizes>
  std::vector<std::vector<CallForm>> seeds_of(SetSizes&& set_sizes) const {
    std::vector<std::vector<CallForm>> groups;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const std::int64_t T : {21, 1}) {
        CallForm& form = groups.emplace_back().emplace_back(op().arguments);
        form[Axis::B] = 2;
        form[Axis::T] = T;
        set_sizes(form);
        form["x"].dtype = dtype;
        settle(form);
      }
    }
    return groups;
  }

  static const Args& of(const void* args) { return *static_cast<const Args*>(args); }

 private:
  static DeviceCall<Args> on_device(const Target& target, const void* args) {
    return {of(args), target.device,
            target.indices_on_host ? DeviceIndices::on_host : DeviceIndices::on_device};
  }

  std::string_view name_;
};

class SearchedShortConv final : public SearchedLayerOp<ShortConvArgs, &fla::short_conv> {
 public:
  SearchedShortConv() : SearchedLayerOp("short_conv") {}

  std::span<const Requirement> requirements() const override {
    static constexpr std::array kRequirements{
        Requirement{"output_final_state", false, "final_state", false},
        Requirement{"final_state", true, "output_final_state", true},
        Requirement{"state_indices", true, "initial_state", true},
        Requirement{"state_indices", true, "final_state", true},
        Requirement{"state_write_indices", false, "state_indices", true},
        Requirement{"initial_state", false, "state_indices", false},
    };
    return kRequirements;
  }
  std::vector<std::vector<CallForm>> seeds() const override {
    return seeds_of([this](CallForm& form) {
      form[Axis::D] = 70;
      form[Axis::W] = 4;
      give(form, "initial_state", true, requirements());
      give(form, "output_final_state", true, requirements());
    });
  }
  std::vector<std::int64_t> sizes(Axis axis) const override {
    switch (axis) {
      case Axis::B: return {1, 3};
      case Axis::T: return {1, 2, 17, 64, 65};
      case Axis::D: return {1, 3, 64, 128, 130};
      case Axis::W: return {2, 3, 4};
      default: return {};
    }
  }

  std::vector<Scaling> scalings(const Target&) const override {
    const std::vector<Scaling::Given> linear{{"bias", false}, {"use_silu", false}};
    return {{.name = "x and initial_state", .parts = {{"x", 1}, {"initial_state", 1}}, .with = linear},
            {.name = "weight", .parts = {{"weight", 1}}, .with = linear}};
  }

  std::string wrong(const std::vector<cases::NamedTensor>& results, const void* expected, const void* args,
                    const Target& target) const override {
    const auto& reference = *static_cast<const cases::ShortConvReference*>(expected);
    std::string text =
        too_far("o", cases::relative_error(results.at(0).tensor, reference.o), tolerance(args, target));
    if (results.size() < 2) return text;
    const TensorView& state = results.at(1).tensor;
    cases::ErrorSum sum;
    bool kept = true;
    const double* exact = reference.final_state.data();
    for_each_offset(state, [&](std::int64_t offset) {
      const double found = cases::element(state, offset);
      if (std::isnan(*exact)) {
        kept &= std::isnan(found);  // poison in a slot that is not written
      } else {
        sum.add(found, *exact);
      }
      ++exact;
    });
    if (!kept) text += "final_state has a slot written that no sequence has; ";
    return text + too_far("final_state", sum.relative(), cases::tolerance(state.dtype()));
  }
};

class SearchedGatedRmsNorm final : public SearchedLayerOp<GatedRmsNormArgs, &fla::gated_rms_norm> {
 public:
  SearchedGatedRmsNorm() : SearchedLayerOp("gated_rms_norm") {}

  std::vector<std::vector<CallForm>> seeds() const override {
    return seeds_of([this](CallForm& form) {
      form[Axis::HV] = 2;
      form[Axis::V] = 64;
      give(form, "weight", true, requirements());
    });
  }
  std::vector<float> numbers(const Argument&) const override { return {0.5f, 2.0f}; }
  std::vector<std::int64_t> sizes(Axis axis) const override {
    switch (axis) {
      case Axis::B: return {1, 3};
      case Axis::T: return {1, 2, 17, 65};
      case Axis::HV: return {1, 3};
      case Axis::V: return {1, 3, 24, 100, 128, 256, 600};
      default: return {};
    }
  }
  std::vector<Scaling> scalings(const Target&) const override {
    return {{.name = "x", .parts = {{"x", 1}}, .least = -4, .most = 40}};  // eps counts below
  }

  std::string wrong(const std::vector<cases::NamedTensor>& results, const void* expected, const void* args,
                    const Target& target) const override {
    const auto& reference = *static_cast<const std::vector<double>*>(expected);
    return too_far("o", cases::relative_error(results.at(0).tensor, reference), tolerance(args, target));
  }
};

}  // namespace

const SearchedOp* searched_layer_op(std::string_view name) {
  static const SearchedShortConv short_conv;
  static const SearchedGatedRmsNorm gated_rms_norm;
#define FLA_OP(NAME, ARGS) \
  if (name == #NAME) return &NAME;
  FLA_LAYER_OPS(FLA_OP)
#undef FLA_OP
  return nullptr;
}

}  // namespace fla::conformance
