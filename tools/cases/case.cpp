#include "tools/cases/case.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "fla/core/device_memory.h"
#include "fla/core/environment.h"
#include "fla/core/errors.h"

namespace fla::cases {
namespace {

constexpr std::string_view kExpect = "expect.";
constexpr std::array<std::string_view, 2> kOwnMetadata{"op",
                                                       "format"};  // "format" is what PyTorch's writer adds

bool is_option(const Argument& argument) { return !argument.is_tensor(); }
bool is_input(const Argument& argument) {
  return argument.is_tensor() && argument.kind != ArgumentKind::output;
}

/// Indices stay on the host, where every device may read them.
Tensor on_device(const Tensor& tensor, const Argument& argument, Device device) {
  if (device.is_cpu() || argument.kind == ArgumentKind::index) return tensor;
  return copy_to(tensor, device);
}

/// `other`: the op's functions of the other direction.
void read_tensor(const Safetensors& file, const Safetensors::Entry& entry, Device device, const Op* other,
                 Case& call) {
  if (entry.name.starts_with(kExpect)) {
    const std::string result = entry.name.substr(kExpect.size());
    if (std::ranges::count(call.op->results, result) == 0) {
      const bool is_others = other != nullptr && std::ranges::count(other->results, result) > 0;
      (is_others ? call.of_other_direction : call.not_compared).push_back(result);
      return;
    }
    call.expected.push_back({result, file.read(entry.name)});
    const Argument* asks = find_argument(call.op->arguments, "output_" + result);
    if (asks != nullptr && asks->kind == ArgumentKind::flag) asks->flag(call.args.get()) = true;
    return;
  }
  const Argument* argument = find_argument(call.op->arguments, entry.name);
  if (argument != nullptr && is_input(*argument)) {
    Tensor tensor = on_device(file.read(entry.name), *argument, device);
    argument->tensor(call.args.get()) = tensor.view();
    call.tensors.push_back({entry.name, tensor});
  } else if (other == nullptr || find_argument(other->arguments, entry.name) == nullptr) {
    call.warnings.push_back("tensor '" + printable_excerpt(entry.name) + "' is no input of " +
                            std::string(call.op->name) + " and is ignored");
  }
}

/// What a pool holds before a run: the states that the call starts from, or zeros.
void fill_pool(const Case& call, const NamedTensor& pool) {
  const Argument* output = find_argument(call.op->arguments, pool.name);
  const Argument* before = find_argument(call.op->arguments, output->in_place_of);
  const TensorView& states = before->tensor(static_cast<const void*>(call.args.get()));
  const Tensor zeros = states.defined() ? Tensor() : Tensor::zeros(pool.tensor.shape(), pool.tensor.dtype());
  copy(states.defined() ? states : zeros.view(), pool.tensor);
}

std::string op_named_by(const Safetensors& file, std::string_view op) {
  const auto found = file.metadata().find("op");
  if (found == file.metadata().end()) {
    if (op.empty()) throw FileError(file.path(), "__metadata__ must name the op under 'op', which it lacks");
    return std::string(op);
  }
  if (!op.empty() && found->second != op) {
    throw FileError(file.path(),
                    "expected a case of " + std::string(op) + ", got one of '" + found->second + "'");
  }
  return found->second;
}

}  // namespace

Case read_case(const std::string& path, std::string_view op, Device device, Direction direction) {
  const Safetensors file = Safetensors::open(path);
  const std::string name = op_named_by(file, op);
  try {
    Case call;
    call.file = path;
    call.op = &find_op(name);
    const Op* other = backward_of(*call.op);
    if (direction == Direction::backward) {
      if (other == nullptr) throw InvalidArgument("op", name + " has no backward function");
      std::swap(call.op, other);
    }
    call.args = call.op->make_args();
    for (const auto& [key, value] : file.metadata()) {
      if (std::ranges::count(kOwnMetadata, key) > 0) continue;
      const Argument* argument = find_argument(call.op->arguments, key);
      if (argument != nullptr && is_option(*argument)) {
        set_option(call.op->arguments, call.args.get(), key, value);
      } else if (other == nullptr || find_argument(other->arguments, key) == nullptr) {
        call.warnings.push_back("__metadata__ '" + printable_excerpt(key) + "' is no option of " + name +
                                " and is ignored");
      }
    }
    for (const Safetensors::Entry& entry : file.entries()) read_tensor(file, entry, device, other, call);
    give_pools(call);
    return call;
  } catch (const InvalidArgument& error) {
    throw FileError(path, error.what());
  }
}

void give_pools(Case& call) {
  void* const args = call.args.get();
  const auto names_slots = [&](const Argument& argument) {
    return argument.names_slots() && argument.tensor(args).defined();
  };
  if (std::ranges::none_of(call.op->arguments, names_slots)) return;
  for (const Argument& output : call.op->arguments) {
    if (output.kind != ArgumentKind::output || output.in_place_of.empty()) continue;
    const auto given = std::ranges::find(call.pools, output.name, &NamedTensor::name);
    const Argument* asked = find_argument(call.op->arguments, "output_" + std::string(output.name));
    if (asked == nullptr || !asked->flag(args)) {
      if (given == call.pools.end()) continue;
      output.tensor(args) = {};
      call.pools.erase(given);
      continue;
    }
    if (given != call.pools.end()) continue;
    const TensorView& states = find_argument(call.op->arguments, output.in_place_of)->tensor(args);
    const auto expected = std::ranges::find(call.expected, output.name, &NamedTensor::name);
    const TensorView like = states.defined()                  ? states
                            : expected != call.expected.end() ? expected->tensor.view()
                                                              : TensorView();
    if (!like.defined()) continue;  // validation says what is missing
    const Device device = call.op->arguments.front().tensor(args).device();
    call.pools.push_back(
        {std::string(output.name),
         Tensor::empty(like.shape(), states.defined() ? states.dtype() : DType::f32, device)});
    output.tensor(args) = call.pools.back().tensor;
    fill_pool(call, call.pools.back());
  }
}

std::vector<NamedTensor> run(const Case& call, std::string_view function) {
  for (const NamedTensor& pool : call.pools) fill_pool(call, pool);
  return call.op->run(function, call.args.get());
}

void validate(const Case& call) {
  try {
    call.op->validate(call.args.get());
  } catch (const InvalidArgument& error) {
    throw FileError(call.file, error.what());
  }
}

void set_option(ArgumentTable table, void* args, std::string_view name, std::string_view value) {
  const Argument* argument = find_argument(table, name);
  if (argument == nullptr || !is_option(*argument)) {
    std::string options;
    for (const Argument& each : table) {
      if (is_option(each)) options += (options.empty() ? "" : ", ") + std::string(each.name);
    }
    throw InvalidArgument(name, "is no option; expected one of " + options);
  }
  if (argument->kind == ArgumentKind::flag) {
    if (value != "0" && value != "1") {
      throw InvalidArgument(name, "expected 0 or 1, got '" + std::string(value) + "'");
    }
    argument->flag(args) = value == "1";
    return;
  }
  const auto read = [&](auto number, const char* expected) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      throw InvalidArgument(name, std::string("expected ") + expected + ", got '" + std::string(value) + "'");
    return number;
  };
  if (argument->kind == ArgumentKind::integer) {
    argument->integer(args) = read(std::int64_t{}, "a whole number");
  } else {
    argument->number(args) = static_cast<float>(read(double{}, "a number"));
  }
}

}  // namespace fla::cases
