#include "tools/conformance/causality_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "fla/core/errors.h"
#include "tools/cases/accuracy.h"
#include "tools/conformance/argument_search.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/trial.h"

namespace fla::conformance {
namespace {

constexpr std::size_t kMostPlaces = 20;

/// The axis of a shape that counts heads (or channels, where each is one), sequences (slots, or batches) or
/// tokens; -1: none does.
int find_axis(const ShapeRule& rule, std::initializer_list<Axis> axes) {
  for (int i = 0; i < rule.rank; ++i) {
    const DimRule& dim = rule.dims[static_cast<std::size_t>(i)];
    if (std::ranges::find(axes, dim.axis) != axes.end() && dim.times == Axis::none && dim.plus == 0) return i;
  }
  return -1;
}
int head_axis(const ShapeRule& rule) { return find_axis(rule, {Axis::H, Axis::HV, Axis::D}); }
int token_axis(const ShapeRule& rule) { return find_axis(rule, {Axis::T}); }
int sequence_axis(const ShapeRule& rule) { return find_axis(rule, {Axis::B, Axis::N, Axis::P}); }

/// One element of an input, and what it may reach.
struct Place {
  std::int64_t offset;
  std::int64_t sequence;  // of the call
  std::int64_t token;     // its first that may differ
  std::int64_t head, heads;
};

/// Which sequences of a call its tokens are in.
class Sequences {
 public:
  explicit Sequences(const MadeCall& call) {
    if (!call.form().is_packed()) return;
    starts_ = call.sequence_starts();
    starts_.resize(static_cast<std::size_t>(call.sizes()[Axis::N]));
  }

  std::int64_t at(std::int64_t batch, std::int64_t token) const {
    if (starts_.empty()) return batch;
    return std::max<std::int64_t>(0, std::ranges::upper_bound(starts_, token) - starts_.begin() - 1);
  }

 private:
  std::vector<std::int64_t> starts_;  ///< of packed sequences
};

/// An element in the middle of the tokens, of the last head; nothing where an input has no heads.
std::optional<Place> place_in(const MadeCall& call, const Argument& argument) {
  const TensorView& tensor = argument.tensor(call.args());
  const ShapeRule& rule = rule_in_force(call.form().table(), argument, call.args());
  const int head = head_axis(rule), token = token_axis(rule), sequence = sequence_axis(rule);
  if (head < 0 || sequence < 0 || tensor.numel() == 0) return std::nullopt;
  Place place{};
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const std::int64_t at = axis == head ? tensor.size(axis) - 1 : tensor.size(axis) / 2;
    place.offset += at * tensor.stride(axis);
    if (axis == head) place.head = at, place.heads = tensor.size(axis);
    if (axis == token) place.token = at;
    if (axis == sequence) place.sequence = at;
  }
  if (token >= 0) place.sequence = Sequences(call).at(place.sequence, place.token);
  return place;
}

/// How a result differs from the one without the element, where it must not.
class Difference {
 public:
  Difference(const MadeCall& call, const Place& place) : call_(call), sequences_(call), place_(place) {}

  void add(const Argument& output, const TensorView& clean, const TensorView& poisoned) {
    const ShapeRule& rule = rule_in_force(call_.form().table(), output, call_.args());
    const int head = head_axis(rule), token = token_axis(rule), sequence = sequence_axis(rule);
    std::vector<std::int64_t> at(static_cast<std::size_t>(clean.rank()));
    for (std::int64_t i = 0; i < clean.numel(); ++i) {
      std::int64_t rest = i, here = 0, there = 0;
      for (int axis = clean.rank() - 1; axis >= 0; --axis) {
        const std::int64_t index = rest % clean.size(axis);
        at[static_cast<std::size_t>(axis)] = index;
        here += index * clean.stride(axis);
        there += index * poisoned.stride(axis);
        rest /= clean.size(axis);
      }
      const auto index = [&](int axis) { return at[static_cast<std::size_t>(axis)]; };
      const std::int64_t heads = clean.size(head);
      const bool same_head = heads >= place_.heads ? index(head) / (heads / place_.heads) == place_.head
                                                   : index(head) == place_.head / (place_.heads / heads);
      const std::int64_t n = token >= 0 ? sequences_.at(index(sequence), index(token)) : index(sequence);
      const double expected = cases::element(clean, here), found = cases::element(poisoned, there);
      if (!same_head || n != place_.sequence) {
        elsewhere_ |= !same(expected, found);
      } else if (token >= 0 && index(token) < place_.token) {
        before_.add(found, expected);
      }
    }
  }

  std::string text(double allowed) const {
    std::string words;
    if (elsewhere_) words += "changes other heads or sequences; ";
    if (!(before_.relative() <= allowed)) words += "changes tokens before it; ";
    return words;
  }

 private:
  static bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

  const MadeCall& call_;
  const Sequences sequences_;
  const Place& place_;
  bool elsewhere_ = false;
  cases::ErrorSum before_;
};

std::string wrong_with(const SearchedOp& op, const Target& target, const CallForm& form,
                       const Argument& argument, double poison,
                       const std::vector<cases::NamedTensor>& clean) {
  MadeCall call(op, form);
  call.fill(1);
  const std::optional<Place> place = place_in(call, argument);
  if (!place) return "";
  call.set(argument, place->offset, poison);
  const std::vector<cases::NamedTensor> poisoned = op.run(target, call.args());
  Difference difference(call, *place);
  std::size_t output = 0;
  for (const Argument& each : form.table()) {
    if (!is_result(form.table(), each)) continue;
    const std::string_view name = op.op().results[output++];
    const auto before = std::ranges::find(clean, name, &cases::NamedTensor::name);
    const auto after = std::ranges::find(poisoned, name, &cases::NamedTensor::name);
    if (before != clean.end() && after != poisoned.end()) difference.add(each, before->tensor, after->tensor);
  }
  const std::string text = difference.text(op.tolerance(call.args(), target));
  return text.empty() ? "" : text + "[" + describe(call) + "]";
}

void check_form(const SearchedOp& op, const Target& target, const CallForm& form, Report& report) {
  MadeCall call(op, form);
  if (!is_valid(op, call)) return;
  if (!op.ask(target, call.args()).takes()) {
    ++report.refused;
    return;
  }
  call.fill(1);
  const std::vector<cases::NamedTensor> clean = op.run(target, call.args());
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const Argument& argument : form.table()) {
    if (argument.kind != ArgumentKind::tensor || !form[argument.name].given) continue;
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), inf, -inf}) {
      ++report.calls;
      const std::string wrong = wrong_with(op, target, form, argument, poison, clean);
      if (!wrong.empty() && report.failures.size() < kMostPlaces) {
        report.failures.push_back(describe(target) + ": " + std::to_string(poison) + " in " +
                                  std::string(argument.name) + " " + wrong);
      }
    }
  }
}

}  // namespace

void check_causality(const SearchedOp& op, Report& report, const Options& options) {
  for (const Target& target : targets(op, report.backend, options.device)) {
    for (const CallForm& base : taken_seeds(op, target)) {
      CallForm packed = base;
      for (const Argument& argument : packed.table()) {
        if (argument.kind == ArgumentKind::index && !argument.names_slots())
          packed[argument.name].given = true;
      }
      try {
        check_form(op, target, base, report);
        if (!(packed == base)) check_form(op, target, packed, report);
      } catch (const DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        report.failures.push_back(describe(target) + ": threw: " + error.what());
      }
    }
  }
}

}  // namespace fla::conformance
