#include "fla/dispatch/rules/facts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fla::dispatch {
namespace {

/// The dimension of a shape rule that measures an axis by itself, or null.
const DimRule* find_dim(const ShapeRule& rule, Axis axis) {
  const auto end = rule.dims.begin() + rule.rank;
  const auto found = std::find_if(rule.dims.begin(), end, [axis](const DimRule& dim) {
    return dim.axis == axis && dim.times == Axis::none;
  });
  return found == end ? nullptr : &*found;
}

bool measures(const Argument& argument, Axis axis) {
  return argument.is_tensor() &&
         (find_dim(argument.shape.first, axis) || find_dim(argument.shape.second, axis));
}

/// The axis as this tensor has it; nothing when it is not there.
std::int64_t measured(ArgumentTable table, const Argument& argument, Axis axis, const void* args) {
  const TensorView& tensor = argument.tensor(args);
  if (!tensor.defined()) return kAbsent;
  const ShapeRule& rule = rule_in_force(table, argument, args);
  const DimRule* dim = find_dim(rule, axis);
  if (dim == nullptr) return kAbsent;
  return tensor.size(static_cast<int>(dim - rule.dims.data())) - dim->plus;
}

/// An index that says how many sequences there are, not which slot each of them has.
bool counts_sequences(const Argument& argument) {
  return argument.kind == ArgumentKind::index && !argument.names_slots();
}

bool has_axis(ArgumentTable table, Axis axis) {
  const auto measuring = [axis](const Argument& argument) { return measures(argument, axis); };
  return std::ranges::any_of(table, measuring) || (axis == Axis::N && has_axis(table, Axis::B));
}

/// Where the axis is, if this argument always has it in the same place.
SizeSource source_in(const Argument& argument, Axis axis) {
  if (!measures(argument, axis) || argument.shape.second.rank != 0) return {};
  const ShapeRule& rule = argument.shape.first;
  const DimRule* dim = find_dim(rule, axis);
  return {&argument, static_cast<std::int16_t>(dim - rule.dims.data()), static_cast<std::int16_t>(dim->plus)};
}

Fact size_fact(ArgumentTable table, Axis axis) {
  for (const Argument& argument : table) {
    if (argument.need != Need::required || !measures(argument, axis)) continue;
    const SizeSource source = source_in(argument, axis);
    if (source.argument == nullptr) break;
    return {.kind = Fact::Kind::size, .source = source, .axis = axis};
  }
  const Fact searched{.kind = Fact::Kind::found_size, .axis = axis};
  if (axis != Axis::N) return searched;
  // The usual table: N is told by an index that may be left out, and is B otherwise.
  const Fact batches = size_fact(table, Axis::B);
  const auto tells = [](const Argument& argument) {
    return measures(argument, Axis::N) && (argument.need == Need::required || counts_sequences(argument));
  };
  const auto index = std::ranges::find_if(table, tells);
  if (batches.kind != Fact::Kind::size || std::ranges::count_if(table, tells) != 1) return searched;
  const SizeSource source = source_in(*index, Axis::N);
  if (source.argument == nullptr) return searched;
  return {.kind = Fact::Kind::size_or_else, .source = source, .other = batches.source, .axis = axis};
}

/// The tensor that a call's dtype and device are read off.
const Argument* leading_tensor(ArgumentTable table) {
  const Argument* first = nullptr;
  for (const Argument& argument : table) {
    if (argument.kind != ArgumentKind::tensor) continue;
    if (argument.need == Need::required) return &argument;
    if (first == nullptr) first = &argument;
  }
  return first;
}

}  // namespace

std::int64_t place_of(float value) {
  if (std::isnan(value)) return kAbsent;
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : std::int64_t{std::numeric_limits<std::int32_t>::min()} - bits;
}

std::int64_t place_of(const std::optional<std::int64_t>& value) {
  return value ? std::max(*value, kAbsent + 1) : kAbsent;
}

// Required arguments, then the index, then the others. Without packed sequences there are as many sequences
// as batches; without slots to name there are as many as sequences.
std::int64_t find_size(ArgumentTable table, Axis axis, const void* args) noexcept {
  const auto ask = [&](auto&& whom) {
    for (const Argument& argument : table) {
      if (!measures(argument, axis) || !whom(argument)) continue;
      if (const std::int64_t size = measured(table, argument, axis, args); size != kAbsent) return size;
    }
    return kAbsent;
  };
  const auto required = [](const Argument& argument) { return argument.need == Need::required; };
  const auto index = [&](const Argument& argument) {
    return counts_sequences(argument) && !required(argument);
  };
  const auto other = [&](const Argument& argument) { return !required(argument) && !index(argument); };
  const auto names_slots = [&](const Argument& argument) {
    return argument.names_slots() && argument.tensor(args).defined();
  };
  if (axis == Axis::P && std::ranges::none_of(table, names_slots)) return find_size(table, Axis::N, args);
  if (const std::int64_t size = ask(required); size != kAbsent) return size;
  if (const std::int64_t size = ask(index); size != kAbsent) return size;
  if (axis == Axis::N) {
    if (const std::int64_t size = find_size(table, Axis::B, args); size != kAbsent) return size;
  }
  return ask(other);
}

std::int64_t Fact::value(ArgumentTable table, const void* args) const noexcept {
  const auto minus = [](std::int64_t a, std::int64_t b) {
    return a == kAbsent || b == kAbsent ? kAbsent : a - b;
  };
  switch (kind) {
    case Kind::flag: return argument->flag(args) ? 1 : 0;
    case Kind::is_defined: return argument->tensor(args).defined() ? 1 : 0;
    case Kind::is_given: return argument->given(args) ? 1 : 0;
    case Kind::dtype: {
      const TensorView& tensor = argument->tensor(args);
      return tensor.defined() ? static_cast<std::int64_t>(tensor.dtype()) : kAbsent;
    }
    case Kind::device: {
      const TensorView& tensor = argument->tensor(args);
      return tensor.defined() ? static_cast<std::int64_t>(tensor.device().type) : kAbsent;
    }
    case Kind::size: return source.size(args);
    case Kind::size_or_else: {
      const std::int64_t size = source.size(args);
      return size != kAbsent ? size : other.size(args);
    }
    case Kind::found_size: return find_size(table, axis, args);
    case Kind::difference: return minus(source.size(args), other.size(args));
    case Kind::found_difference:
      return minus(find_size(table, axis, args), find_size(table, other_axis, args));
    case Kind::number: {
      const std::optional<float>& number = argument->number(args);
      return number ? place_of(*number) : kAbsent;
    }
    case Kind::integer: return place_of(argument->integer(args));
  }
  return kAbsent;
}

Fact difference_of(const Fact& a, const Fact& b) {
  const bool fixed = a.kind == Fact::Kind::size && b.kind == Fact::Kind::size;
  if (!fixed) return {.kind = Fact::Kind::found_difference, .axis = a.axis, .other_axis = b.axis};
  return {.kind = Fact::Kind::difference,
          .source = a.source,
          .other = b.source,
          .axis = a.axis,
          .other_axis = b.axis};
}

std::vector<NamedFact> facts_of(ArgumentTable table) {
  std::vector<NamedFact> names;
  const auto add = [&names](std::string_view name, FactType type, const Fact& fact,
                            std::optional<Fact> alone) {
    // The words that every op shares come first and keep their meaning.
    if (std::ranges::find(names, name, &NamedFact::name) != names.end()) return;
    names.push_back({std::string(name), type, fact, alone});
  };
  const auto add_truth = [&add](std::string_view name, const Fact& fact) {
    add(name, FactType::truth, fact, fact);
  };
  if (const Argument* leading = leading_tensor(table)) {
    add("dtype", FactType::dtype, {.kind = Fact::Kind::dtype, .argument = leading}, std::nullopt);
    add("device", FactType::device, {.kind = Fact::Kind::device, .argument = leading}, std::nullopt);
  }
  for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
    const auto axis = static_cast<Axis>(i);
    if (has_axis(table, axis)) add(kAxisNames[i], FactType::size, size_fact(table, axis), std::nullopt);
  }
  for (const Argument& argument : table) {
    if (counts_sequences(argument))
      add_truth("varlen", {.kind = Fact::Kind::is_defined, .argument = &argument});
  }
  for (const Argument& argument : table) {
    if (argument.kind == ArgumentKind::flag) {
      add_truth(argument.name, {.kind = Fact::Kind::flag, .argument = &argument});
    } else if (!argument.is_tensor()) {
      const bool integer = argument.kind == ArgumentKind::integer;
      add(argument.name, integer ? FactType::integer : FactType::number,
          {.kind = integer ? Fact::Kind::integer : Fact::Kind::number, .argument = &argument},
          Fact{.kind = Fact::Kind::is_given, .argument = &argument});
    } else if (argument.need != Need::required) {
      add_truth(argument.name, {.kind = Fact::Kind::is_defined, .argument = &argument});
    }
  }
  return names;
}

}  // namespace fla::dispatch
