#include "tools/fla/synthetic_call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "fla/core/errors.h"
#include "tools/cases/case.h"

namespace fla::command {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

std::int64_t& axis(AxisSizes& sizes, std::string_view name) {
  const auto found = std::ranges::find(kAxisNames, name);
  if (found == kAxisNames.end()) {
    throw InvalidArgument(
        "shape", "expected sizes of B, T, H, HV, K, V, N, P, C, D, W and L, got '" + std::string(name) + "'");
  }
  return sizes[static_cast<Axis>(found - kAxisNames.begin())];
}

std::int64_t size_from(std::string_view name, std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 0 || size > kMaxSize) {
    throw InvalidArgument("shape", "expected " + std::string(name) +
                                       " to be a whole number from 0 to 2^40, got '" + std::string(text) +
                                       "'");
  }
  return size;
}

void expect_size(const AxisSizes& sizes, Axis needed) {
  if (sizes[needed] >= 0) return;
  throw InvalidArgument(
      "shape",
      "expected a size of " + std::string(kAxisNames[static_cast<std::size_t>(needed)]) + ", got none");
}

std::vector<std::int64_t> shape_of(const ShapeRule& rule, const AxisSizes& sizes, std::string_view argument) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (int i = 0; i < rule.rank; ++i) {
    const DimRule& dim = rule.dims[static_cast<std::size_t>(i)];
    expect_size(sizes, dim.axis);
    if (dim.times != Axis::none) expect_size(sizes, dim.times);
    shape.push_back(dim.in(sizes));
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(shape.back(), 1), &elements) ||
        elements > kMaxElements) {
      throw InvalidArgument(argument, "expected at most 2^56 elements, got shape " + std::string(rule.text));
    }
  }
  return shape;
}

/// An index on the host with these entries.
template <class EntryAt>
Tensor index_of(std::int64_t size, DType dtype, EntryAt&& entry_at) {
  Tensor index = Tensor::empty({size}, dtype);
  for (std::int64_t i = 0; i < size; ++i) {
    if (dtype == DType::i32) {
      index.as<std::int32_t>()[i] = static_cast<std::int32_t>(entry_at(i));
    } else {
      index.as<std::int64_t>()[i] = entry_at(i);
    }
  }
  return index;
}

Tensor even_starts(std::int64_t sequences, std::int64_t tokens, DType dtype) {
  return index_of(sequences + 1, dtype,
                  [&](std::int64_t i) { return tokens / sequences * i + std::min(i, tokens % sequences); });
}

/// Every sequence reads a slot of its own; checkpoints have those behind them, and none is started from.
Tensor first_slots(const Argument& argument, const AxisSizes& sizes, DType dtype) {
  const std::int64_t N = sizes[Axis::N];
  if (argument.name == "num_accepted_tokens") return index_of(N, dtype, [](std::int64_t) { return 0; });
  if (argument.shape.first.rank == 1) return index_of(N, dtype, [](std::int64_t i) { return i; });
  return index_of(N * sizes[Axis::C], dtype, [N](std::int64_t i) { return N + i; });
}

}  // namespace

OptionalTensor parse_optional_tensor(const std::string& word) {
  const std::size_t at = word.find('@'), equals = word.substr(0, at).find('=');
  OptionalTensor tensor{.name = word.substr(0, std::min(at, equals))};
  if (equals != std::string::npos) {
    const std::string dtype = word.substr(equals + 1, at - equals - 1);
    tensor.dtype = dtype_from_name(dtype);
    if (!tensor.dtype)
      throw InvalidArgument(tensor.name, "expected a dtype such as f32, bf16 or i32, got '" + dtype + "'");
  }
  if (at != std::string::npos) {
    const std::string device = word.substr(at + 1);
    tensor.device = device_from_name(device);
    if (!tensor.device)
      throw InvalidArgument(tensor.name, "expected cpu, cuda or cuda:N behind the @, got '" + device + "'");
  }
  return tensor;
}

AxisSizes parse_shape(std::string_view text) {
  AxisSizes sizes;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw InvalidArgument(
          "shape", "expected something like B=1,T=512,H=8,K=128,V=128, got '" + std::string(item) + "'");
    }
    const std::string_view name = item.substr(0, equals);
    std::int64_t& size = axis(sizes, name);
    if (size >= 0) throw InvalidArgument("shape", "has " + std::string(name) + " twice");
    size = size_from(name, item.substr(equals + 1));
  }
  if (sizes[Axis::B] < 0) sizes[Axis::B] = 1;
  if (sizes[Axis::N] == 0 || (sizes[Axis::N] > 0 && sizes[Axis::B] != 1)) {
    throw InvalidArgument("shape", "expected B=1 and at least one sequence where N is given");
  }
  if (sizes[Axis::HV] < 0) sizes[Axis::HV] = sizes[Axis::H];
  if (sizes[Axis::V] < 0) sizes[Axis::V] = sizes[Axis::K];
  return sizes;
}

AxisSizes parse_recurrence_shape(std::string_view text) {
  const AxisSizes sizes = parse_shape(text);
  for (const Axis axis : {Axis::T, Axis::H, Axis::K}) expect_size(sizes, axis);
  return sizes;
}

SyntheticCall make_synthetic_call(const cases::Op& op, const AxisSizes& given, DType dtype, Device device,
                                  const Settings& options, const std::vector<OptionalTensor>& with) {
  AxisSizes sizes = given;
  const bool packed = sizes[Axis::N] > 0;
  if (!packed) sizes[Axis::N] = sizes[Axis::B];
  if (sizes[Axis::P] < 0) sizes[Axis::P] = sizes[Axis::N];
  SyntheticCall call{.args = op.make_args(), .memory = {}};
  void* const args = call.args.get();
  // Before the tensors: flags decide about shapes.
  for (const auto& [name, value] : options) cases::set_option(op.arguments, args, name, value);

  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 20;
  std::uintptr_t address = kApart;
  const auto place = [&](const Argument& argument, DType type, Device where) {
    // Nobody reads there; a pointer that is not null and aligned, and memory that no other has, are all that
    // a verifier may ask for.
    const std::vector<std::int64_t> shape =
        shape_of(rule_in_force(op.arguments, argument, args), sizes, argument.name);
    const TensorView tensor(reinterpret_cast<const void*>(address), type, shape, where);
    argument.tensor(args) = tensor;
    address += (static_cast<std::uintptr_t>(tensor.extent().end) / kApart + 1) * kApart;
  };
  const auto place_index = [&](const Argument& argument, const OptionalTensor& wanted) {
    const DType type = wanted.dtype.value_or(DType::i64);
    const Device where = wanted.device.value_or(Device{});
    if (!where.is_cpu()) return place(argument, type, where);  // the host never reads it
    if (!kIndexTypes.contains(type))
      throw InvalidArgument(argument.name, "expected i32 or i64, got " + std::string(name_of(type)));
    const std::vector<std::int64_t> shape =
        shape_of(rule_in_force(op.arguments, argument, args), sizes, argument.name);
    call.memory.push_back(argument.names_slots() ? first_slots(argument, sizes, type)
                                                 : even_starts(sizes[Axis::N], sizes[Axis::T], type));
    argument.tensor(args) = TensorView(call.memory.back().data(), type, shape);
  };

  // Rings are empty.
  const auto place_zeros = [&](const Argument& argument) {
    const std::vector<std::int64_t> shape = shape_of(argument.shape.first, sizes, argument.name);
    call.memory.push_back(index_of(shape[0], DType::i64, [](std::int64_t) { return 0; }));
    argument.tensor(args) = call.memory.back();
  };

  // layer_idx and num_layers are 0 and 1 if left out.
  for (const auto& [name, value] : {std::pair{"layer_idx", 0}, {"num_layers", 1}}) {
    const Argument* argument = find_argument(op.arguments, name);
    if (argument != nullptr && !argument->integer(args)) argument->integer(args) = value;
  }
  const auto named = [&](const Argument& argument) {
    return std::ranges::find(with, argument.name, &OptionalTensor::name) != with.end();
  };
  // Of arguments that exclude each other, the first is given unless `with` names one.
  const bool one_named = std::ranges::any_of(
      op.arguments, [&](const Argument& each) { return each.need == Need::either && named(each); });
  bool either = !one_named;
  for (const Argument& argument : op.arguments) {
    if (argument.kind == ArgumentKind::index) {
      if (argument.need == Need::required) {
        place_zeros(argument);
      } else if (!argument.names_slots() && packed) {
        place_index(argument, {});
      }
    } else if (argument.need == Need::required ||
               (argument.need == Need::either && std::exchange(either, false))) {
      place(argument, argument.dtypes.contains(dtype) ? dtype : DType::f32, device);
    }
  }
  for (const OptionalTensor& wanted : with) {
    const Argument* argument = find_argument(op.arguments, wanted.name);
    if (argument == nullptr || !argument->is_tensor()) {
      throw InvalidArgument(
          "with", "expected an optional tensor of " + std::string(op.name) + ", got '" + wanted.name + "'");
    }
    if (argument->kind != ArgumentKind::index) {
      place(*argument, wanted.dtype.value_or(DType::f32), wanted.device.value_or(device));
    } else if (argument->names_slots() || packed) {
      place_index(*argument, wanted);
    } else {
      throw InvalidArgument(wanted.name,
                            "expected N, the number of packed sequences, in the shape, got none");
    }
  }
  return call;
}

}  // namespace fla::command
