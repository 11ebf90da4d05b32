#include "fla/core/arguments.h"

#include <algorithm>
#include <cmath>

#include "fla/core/errors.h"

namespace fla {
namespace {

/// What is known of a call's sizes so far. Without slots to name, P is another word for N.
struct Measured : AxisSizes {
  bool has_slots = false;

  std::string_view name_of(Axis axis) const {
    return kAxisNames[static_cast<std::size_t>(axis == Axis::P && !has_slots ? Axis::N : axis)];
  }
};

std::string expected_shape(const ShapeRule& rule, const Measured& sizes) {
  std::string text = "[";
  for (int i = 0; i < rule.rank; ++i) {
    const DimRule& dim = rule.dims[static_cast<std::size_t>(i)];
    if (i > 0) text += ", ";
    text += sizes.name_of(dim.axis);
    if (dim.times != Axis::none) text += "*" + std::string(sizes.name_of(dim.times));
    if (dim.plus != 0) text += dim.plus > 0 ? "+1" : "-1";
    const bool known = sizes[dim.axis] >= 0 && (dim.times == Axis::none || sizes[dim.times] >= 0);
    if (known) text += "=" + std::to_string(dim.in(sizes));
  }
  return text + "]";
}

[[noreturn]] void wrong_shape(const Argument& argument, const ShapeRule& rule, const Measured& sizes,
                              const TensorView& tensor) {
  throw InvalidArgument(
      argument.name, "expected shape " + expected_shape(rule, sizes) + ", got " + shape_text(tensor.shape()));
}

/// Axes that nobody has measured yet take their size from this tensor; the others must agree.
void match_shape(const Argument& argument, const ShapeRule& rule, const TensorView& tensor, Measured& sizes) {
  if (tensor.rank() != rule.rank) wrong_shape(argument, rule, sizes, tensor);
  for (int i = 0; i < rule.rank; ++i) {
    const DimRule& dim = rule.dims[static_cast<std::size_t>(i)];
    if (dim.times == Axis::none && sizes[dim.axis] < 0) sizes[dim.axis] = tensor.size(i) - dim.plus;
    if (dim.in(sizes) != tensor.size(i) || sizes[dim.axis] < 0) wrong_shape(argument, rule, sizes, tensor);
  }
}

/// `first` is the tensor whose device the others have to be on; whoever comes first sets it.
void check_tensor(const Argument& argument, const TensorView& tensor, const TensorView*& first) {
  if (first == nullptr) first = &tensor;
  if (!argument.dtypes.contains(tensor.dtype())) {
    throw InvalidArgument(argument.name, "expected dtype " + to_string(argument.dtypes) + ", got " +
                                             std::string(name_of(tensor.dtype())));
  }
  const bool on_host = argument.kind == ArgumentKind::index && tensor.device().is_cpu();
  if (!on_host && tensor.device() != first->device()) {
    throw InvalidArgument(argument.name, "expected device " + to_string(first->device()) + ", got " +
                                             to_string(tensor.device()));
  }
  if (tensor.data() == nullptr && tensor.numel() > 0) {
    throw InvalidArgument(argument.name, "expected " + tensor.describe() + ", got a null pointer");
  }
}

/// An argument that stands without the one it needs would be ignored.
void check_need(ArgumentTable table, const void* args, const Argument& argument, const Measured& sizes) {
  const Argument& needed = *find_argument(table, argument.needs);
  if (needed.given(args)) return;
  const std::string due =
      needed.is_tensor() ? "a tensor of shape " + expected_shape(rule_in_force(table, needed, args), sizes)
      : needed.kind == ArgumentKind::number  ? "a number"
      : needed.kind == ArgumentKind::integer ? "a whole number"
                                             : "true";
  throw InvalidArgument(needed.name, "expected " + due + " with " + std::string(argument.name) +
                                         (needed.kind == ArgumentKind::flag ? ", got false" : ", got none"));
}

/// Of those that stand in for each other there is one.
void check_either(ArgumentTable table, const void* args) {
  const Argument* found = nullptr;
  std::string names;
  for (const Argument& argument : table) {
    if (argument.need != Need::either) continue;
    names += (names.empty() ? "" : " or ") + std::string(argument.name);
    if (!argument.given(args)) continue;
    if (found != nullptr)
      throw InvalidArgument(argument.name, "expected none with " + std::string(found->name) + ", got both");
    found = &argument;
  }
  if (found != nullptr || names.empty()) return;
  const auto first = std::ranges::find(table, Need::either, &Argument::need);
  throw InvalidArgument(first->name, "expected " + names + ", got neither");
}

/// Whether axes nest, each stepping over everything that those of smaller strides reach: then no element is
/// in another's place.
bool has_places_of_its_own(const TensorView& tensor) {
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) < 2) continue;
    const std::int64_t step = std::abs(tensor.stride(axis));
    std::int64_t reach = 1;
    for (int other = 0; other < tensor.rank(); ++other) {
      const std::int64_t stride = std::abs(tensor.stride(other));
      const bool smaller = stride < step || (stride == step && other < axis);
      if (smaller && other != axis) reach += (tensor.size(other) - 1) * stride;
    }
    if (step < reach) return false;
  }
  return true;
}

void check_output(ArgumentTable table, const void* args, const Argument& argument, const TensorView& output) {
  if (output.numel() == 0) return;  // nothing is written, whatever the strides are
  for (int axis = 0; axis < output.rank(); ++axis) {
    if (output.size(axis) > 1 && output.stride(axis) == 0) {
      throw InvalidArgument(
          argument.name,
          "expected every element in a place of its own, got stride 0 at axis " + std::to_string(axis));
    }
  }
  if (!has_places_of_its_own(output)) {
    throw InvalidArgument(argument.name, "expected every element in a place of its own, got strides " +
                                             shape_text(output.strides()) + " for shape " +
                                             shape_text(output.shape()));
  }
  for (const Argument& other : table) {
    if (!other.is_tensor() || &other == &argument) continue;
    if (other.kind == ArgumentKind::output && &other > &argument) continue;  // its own turn comes
    const TensorView& tensor = other.tensor(args);
    // A state that is updated in place: the same elements in the same places.
    const bool in_place = other.name == argument.in_place_of && output.data() == tensor.data() &&
                          output.dtype() == tensor.dtype() &&
                          std::ranges::equal(output.shape(), tensor.shape()) &&
                          std::ranges::equal(output.strides(), tensor.strides());
    if (in_place || !tensor.defined() || !may_overlap(output, tensor)) continue;
    throw InvalidArgument(argument.name,
                          "expected memory of its own, got some that overlaps " + std::string(other.name));
  }
}

struct Bytes {
  std::int64_t begin, end;
};

/// Where the elements lie when the first one is at `base`.
Bytes address_range(const TensorView& tensor, std::int64_t base) {
  const TensorView::Extent extent = tensor.extent();
  return {base + extent.begin, base + extent.end};
}

std::int64_t largest_stride(const TensorView& tensor) {
  std::int64_t largest = 0;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) > 1) largest = std::max(largest, std::abs(tensor.stride(axis)));
  }
  return largest * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// What one step of `stride` covers: the axes of that stride are taken out.
TensorView inside_step(TensorView tensor, std::int64_t stride) {
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype()));
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) > 1 && std::abs(tensor.stride(axis)) * element == stride)
      tensor = tensor.slice(axis, 0, 1);
  }
  return tensor;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool may_overlap_at(const TensorView& a, std::int64_t base_a, const TensorView& b, std::int64_t base_b) {
  const Bytes x = address_range(a, base_a), y = address_range(b, base_b);
  if (x.end <= y.begin || y.end <= x.begin) return false;
  const std::int64_t stride = largest_stride(a);
  if (stride == 0 || stride != largest_stride(b)) return true;
  // Both step by the same stride: they share an element only if what one step covers does, some steps apart.
  const TensorView u = inside_step(a, stride), v = inside_step(b, stride);
  const Bytes p = address_range(u, base_a), q = address_range(v, base_b);
  const std::int64_t first = floor_div(p.begin - q.end, stride) + 1,
                     last = floor_div(p.end - 1 - q.begin, stride);
  if (last - first > 2) return true;  // steps that reach over each other: not worth a closer look
  for (std::int64_t steps = first; steps <= last; ++steps) {
    if (may_overlap_at(u, base_a, v, base_b + steps * stride)) return true;
  }
  return false;
}

std::int64_t address_of(const TensorView& tensor) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.data()));
}

}  // namespace

const Argument* find_argument(ArgumentTable table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Argument::name);
  return found == table.end() ? nullptr : &*found;
}

const ShapeRule& rule_in_force(ArgumentTable table, const Argument& argument, const void* args) {
  const ShapeRules& rules = argument.shape;
  if (rules.second.rank == 0) return rules.first;
  if (rules.flag.empty())
    return argument.tensor(args).rank() == rules.second.rank ? rules.second : rules.first;
  const Argument* flag = find_argument(table, rules.flag);
  return flag != nullptr && flag->flag(args) ? rules.second : rules.first;
}

bool is_result(ArgumentTable table, const Argument& argument) {
  if (argument.kind != ArgumentKind::output || argument.need == Need::required) return false;
  if (argument.shape.first.dims[1].axis == Axis::L) return false;  // a ring is read as well: the caller's
  const Argument* needed = find_argument(table, argument.needs);
  return needed == nullptr || needed->is_tensor();
}

bool may_overlap(const TensorView& a, const TensorView& b) {
  if (a.device() != b.device() || a.numel() == 0 || b.numel() == 0) return false;
  return may_overlap_at(a, address_of(a), b, address_of(b));
}

AxisSizes check_arguments(ArgumentTable table, const void* args) {
  Measured sizes;
  const TensorView* first = nullptr;
  const auto check = [&](const Argument& argument) {
    const TensorView& tensor = argument.tensor(args);
    check_tensor(argument, tensor, first);
    match_shape(argument, rule_in_force(table, argument, args), tensor, sizes);
  };
  for (const Argument& argument : table)
    sizes.has_slots |= argument.names_slots() && argument.tensor(args).defined();
  // Required tensors first: they set the sizes that the optional ones are held to. Then the index that says
  // how many sequences there are, then those that name a slot for each of them.
  for (const Argument& argument : table) {
    if (argument.need != Need::required) continue;
    if (!argument.tensor(args).defined()) {
      throw InvalidArgument(argument.name, "expected a tensor of shape " +
                                               expected_shape(argument.shape.first, sizes) + ", got none");
    }
    check(argument);
  }
  for (const Argument& argument : table) {
    if (argument.kind == ArgumentKind::index && !argument.names_slots() && argument.tensor(args).defined())
      check(argument);
  }
  check_either(table, args);
  if (sizes[Axis::N] < 0) sizes[Axis::N] = sizes[Axis::B];
  if (sizes.has_slots) {
    for (const Argument& argument : table) {
      if (argument.names_slots() && argument.tensor(args).defined()) check(argument);
    }
  } else if (sizes[Axis::P] != sizes[Axis::N]) {
    const bool measured = sizes[Axis::P] >= 0;  // by a required tensor, which has to agree
    sizes[Axis::P] = sizes[Axis::N];
    for (const Argument& argument : table) {
      if (measured && argument.need == Need::required) check(argument);
    }
  }
  for (const Argument& argument : table) {
    if (!argument.needs.empty() && argument.given(args)) check_need(table, args, argument, sizes);
    if (argument.kind == ArgumentKind::number) {
      const std::optional<float>& number = argument.number(args);
      if (number && !std::isfinite(*number)) {
        throw InvalidArgument(argument.name, "expected a finite number, got " + std::to_string(*number));
      }
    }
    if (!argument.is_tensor() || argument.need == Need::required || argument.kind == ArgumentKind::index)
      continue;
    if (argument.tensor(args).defined()) check(argument);
  }
  for (const Argument& argument : table) {
    if (argument.kind != ArgumentKind::output) continue;
    if (const TensorView& output = argument.tensor(args); output.defined())
      check_output(table, args, argument, output);
  }
  return sizes;
}

}  // namespace fla
