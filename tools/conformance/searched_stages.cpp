#include "tools/conformance/searched_stages.h"

#include <string_view>

#include "fla/ops/common/stages.h"
#include "tools/cases/accuracy.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/stage_reference.h"

namespace fla::conformance {
namespace {

/// What differs from stage to stage.
struct StageFacts {
  std::string_view title;
  Axis heads, width;
  std::int64_t widest;
  double spread;  // of the contents
  std::vector<std::string_view> given{};
  std::vector<Requirement> requirements{};
  std::vector<Scaling> scalings{};
};

template <class Args>
class SearchedStage final : public SearchedOp {
 public:
  explicit SearchedStage(StageFacts facts) : facts_(std::move(facts)) {}

  const cases::Op& op() const override { return cases::find_op(facts_.title); }
  std::span<const Requirement> requirements() const override { return facts_.requirements; }
  std::vector<Scaling> scalings(const Target&) const override { return facts_.scalings; }
  std::vector<float> numbers(const Argument&) const override { return {-5.0f, -0.8f, -40.0f}; }

  std::vector<std::vector<CallForm>> seeds() const override {
    std::vector<std::vector<CallForm>> groups;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      std::vector<CallForm>& group = groups.emplace_back();
      for (const std::int64_t width : {16, 64, 32, 8, 128, 256}) {
        CallForm& form = group.emplace_back(op().arguments);
        form[Axis::B] = 2;
        form[Axis::T] = 21;
        form[facts_.heads] = 2;
        form[facts_.width] = width;
        form[op().arguments.front().name].dtype = dtype;
        for (const std::string_view argument : facts_.given) give(form, argument, true, facts_.requirements);
      }
    }
    return groups;
  }

  std::vector<std::int64_t> sizes(Axis axis) const override {
    if (axis == facts_.width) {
      std::vector<std::int64_t> widths{1, 3, 24, 32, 48, 64, 100, 128, 256};
      std::erase_if(widths, [this](std::int64_t width) { return width > facts_.widest; });
      return widths;
    }
    if (axis == Axis::T) return {1, 2, 17, 64, 65};
    return axis == Axis::B || axis == facts_.heads ? std::vector<std::int64_t>{1, 3}
                                                   : std::vector<std::int64_t>();
  }

  void fill(const Argument&, const TensorView& tensor, const void*, cases::Random& random) const override {
    for_each_offset(tensor, [&](std::int64_t offset) {
      cases::store(tensor, offset, facts_.spread * static_cast<double>(random.normal()));
    });
  }

  double tolerance(const void*, const Target&) const override { return cases::tolerance(DType::f32); }

  std::shared_ptr<const void> expected(const void* args) const override {
    return std::make_shared<std::vector<double>>(stage_reference(*static_cast<const Args*>(args)));
  }

  std::string wrong(const std::vector<cases::NamedTensor>& results, const void* expected, const void* args,
                    const Target& target) const override {
    const Tensor& out = results.at(0).tensor;
    if (out.dtype() != DType::f32) return "gives another dtype than f32; ";
    const double error = cases::relative_error(out, *static_cast<const std::vector<double>*>(expected));
    const double allowed = tolerance(args, target);
    if (error <= allowed) return "";
    return "out is off by " + std::to_string(error) + ", allowed " + std::to_string(allowed) + "; ";
  }

 private:
  StageFacts facts_;
};

}  // namespace

std::array<const SearchedOp*, 3> searched_stages() {
  static const SearchedStage<L2NormArgs> l2_norm(
      {.title = "common.l2_norm",
       .heads = Axis::H,
       .width = Axis::K,
       .widest = 256,
       .spread = 2,
       .scalings = {{.name = "x", .parts = {{"x", 1}}, .least = -40, .most = 40}}});
  static const SearchedStage<GateArgs> gate(
      {.title = "common.gate",
       .heads = Axis::HV,
       .width = Axis::K,
       .widest = 256,
       .spread = 1,
       .given = {"A_log", "dt_bias"},
       .requirements = {{"A_log", false, "lower_bound", true}, {"lower_bound", false, "A_log", true}}});
  static const SearchedStage<SolveTrilArgs> solve_tril(
      {.title = "common.solve_tril", .heads = Axis::HV, .width = Axis::C, .widest = 64, .spread = 0.3});
  return {&l2_norm, &gate, &solve_tril};
}

}  // namespace fla::conformance
