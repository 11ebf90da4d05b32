#include "tools/conformance/call_form.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "fla/core/errors.h"

namespace fla::conformance {
namespace {

constexpr std::array kTypes{DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32};
constexpr std::int64_t kPackedSequences = 4;

DType first_of(DTypeSet types) {
  const auto found = std::ranges::find_if(kTypes, [&](DType type) { return types.contains(type); });
  return found == kTypes.end() ? DType::f32 : *found;
}

bool tells_packing(const Argument& argument) {
  return argument.kind == ArgumentKind::index && !argument.names_slots();
}

std::string text_of(float number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", static_cast<double>(number));
  return text.data();
}

bool has_axis(ArgumentTable table, Axis axis) {
  return std::ranges::any_of(table, [&](const Argument& argument) {
    const auto dims =
        std::span(argument.shape.first.dims).first(static_cast<std::size_t>(argument.shape.first.rank));
    return std::ranges::any_of(dims,
                               [&](const DimRule& dim) { return dim.axis == axis || dim.times == axis; });
  });
}

}  // namespace

CallForm::CallForm(ArgumentTable table) : table_(table) {
  for (const Argument& argument : table)
    choices_.push_back({.given = argument.need == Need::required, .dtype = first_of(argument.dtypes)});
}

Choice& CallForm::operator[](std::string_view argument) {
  return const_cast<Choice&>(std::as_const(*this)[argument]);
}

const Choice& CallForm::operator[](std::string_view argument) const {
  const Argument* const found = find_argument(table_, argument);
  if (found == nullptr)
    throw InvalidArgument("argument", "expected one of the table, got '" + std::string(argument) + "'");
  return choices_[static_cast<std::size_t>(found - table_.data())];
}

bool CallForm::is_packed() const {
  return std::ranges::any_of(table_, [&](const Argument& argument) {
    return tells_packing(argument) && (*this)[argument.name].given;
  });
}

bool CallForm::is_pooled() const {
  return std::ranges::any_of(table_, [&](const Argument& argument) {
    return argument.names_slots() && (*this)[argument.name].given;
  });
}

AxisSizes CallForm::sizes() const {
  AxisSizes all = sizes_;
  if (is_packed()) all[Axis::B] = 1;
  all[Axis::N] = is_packed() ? kPackedSequences : all[Axis::B];
  all[Axis::P] = is_pooled() ? 2 * all[Axis::N] + 3 : all[Axis::N];
  for (const Argument& argument : table_) {  // with a slot for every entry
    if (argument.names_slots() && argument.shape.first.rank == 2 && (*this)[argument.name].given)
      all[Axis::P] += all[Axis::N] * all[Axis::C];
  }
  return all;
}

bool operator==(const CallForm& a, const CallForm& b) {
  for (int axis = 0; axis < kAxes; ++axis) {
    if (a.sizes_[static_cast<Axis>(axis)] != b.sizes_[static_cast<Axis>(axis)]) return false;
  }
  return a.choices_ == b.choices_;
}

void give(CallForm& form, std::string_view argument, bool given, std::span<const Requirement> needs) {
  form[argument].given = given;
  for (const Argument& other : form.table()) {
    if (given && other.name == argument && !other.needs.empty() && !form[other.needs].given)
      give(form, other.needs, true, needs);
    if (!given && other.needs == argument && form[other.name].given) give(form, other.name, false, needs);
  }
  for (const Requirement& need : needs) {
    if (need.argument == argument && need.given == given && form[need.other].given != need.other_given)
      give(form, need.other, need.other_given, needs);
  }
}

void set_option(const Argument& argument, const Choice& choice, void* args) {
  if (argument.kind == ArgumentKind::flag) argument.flag(args) = choice.given;
  if (!choice.given) return;
  if (argument.kind == ArgumentKind::number) argument.number(args) = choice.number;
  if (argument.kind == ArgumentKind::integer)
    argument.integer(args) = static_cast<std::int64_t>(choice.number);
}

std::vector<Variation> variations(ArgumentTable table, std::span<const Requirement> needs,
                                  const std::function<std::vector<float>(const Argument&)>& numbers,
                                  const std::function<std::vector<std::int64_t>(Axis)>& sizes) {
  std::vector<Variation> all;
  for (const Argument& argument : table) {
    const std::string name(argument.name);
    // With the argument given, one thing about it.
    const auto vary = [&](std::string value, auto change) {
      all.push_back({name, std::move(value), [name, change, needs](CallForm& form) {
                       give(form, name, true, needs);
                       change(form[name]);
                     }});
    };
    if (argument.need == Need::optional) {
      const bool flag = argument.kind == ArgumentKind::flag;
      all.push_back({name, flag ? "off" : "left out",
                     [name, needs](CallForm& form) { give(form, name, false, needs); }});
    }
    if (argument.kind == ArgumentKind::flag) vary("on", [](Choice&) {});
    if (argument.kind == ArgumentKind::number || argument.kind == ArgumentKind::integer) {
      for (const float number : numbers(argument))
        vary(text_of(number), [number](Choice& choice) { choice.number = number; });
    }
    if (!argument.is_tensor()) continue;
    for (const DType dtype : kTypes) {
      if (argument.dtypes.contains(dtype))
        vary(std::string(name_of(dtype)), [dtype](Choice& choice) { choice.dtype = dtype; });
    }
    vary("with gaps", [](Choice& choice) { choice.lies = Choice::Lies::padded; });
    vary("with any strides", [](Choice& choice) { choice.lies = Choice::Lies::anyhow; });
    if (argument.shape.second.rank > 0 && argument.shape.flag.empty())
      vary("as " + std::string(argument.shape.second.text),
           [](Choice& choice) { choice.second_shape = true; });
    if (!argument.in_place_of.empty()) {
      const std::string other(argument.in_place_of);
      all.push_back({name, "in place", [name, other, needs](CallForm& form) {
                       give(form, name, true, needs);
                       give(form, other, true, needs);
                       form[name].in_place = true;
                     }});
    }
  }
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (!has_axis(table, axis)) continue;
    for (const std::int64_t size : sizes(axis)) {
      all.push_back({std::string(kAxisNames[static_cast<std::size_t>(i)]), std::to_string(size),
                     [axis, size](CallForm& form) { form[axis] = size; }});
    }
  }
  return all;
}

}  // namespace fla::conformance
