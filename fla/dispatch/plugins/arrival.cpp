#include "fla/dispatch/plugins/arrival.h"

#include <algorithm>
#include <map>

#include "fla/dispatch/catalog/catalog.h"

namespace fla::dispatch {

std::string objection(const Arrival& arrival, std::span<const PresentOp> present) {
  using PresentFunction = PresentOp::PresentFunction;
  std::map<std::string_view, PresentOp> ops;
  for (const PresentOp& op : present) ops[op.name] = op;
  for (const FunctionBase* function : arrival.functions) {
    std::vector<PresentFunction>& functions = ops[function->op()].functions;
    if (std::ranges::find(functions, function->name(), &PresentFunction::name) != functions.end()) {
      return "it brings function '" + std::string(function->name()) + "', which op " +
             std::string(function->op()) + " has already";
    }
    functions.push_back({function->name(), function->description().args_size});
  }
  for (const Arrival::ServedOp& served : arrival.ops) {
    const auto op = ops.find(served.op());
    if (op == ops.end()) return "it serves op '" + std::string(served.op()) + "', which does not exist";
    std::vector<std::size_t> sizes;
    for (const PresentFunction& function : op->second.functions) {
      if (served.function().empty() || function.name == served.function())
        sizes.push_back(function.args_size);
    }
    if (sizes.empty()) return "it serves " + served.name + ", which does not exist";
    // A function that a plugin added to an op may have arguments of its own.
    if (served.args_size != 0 && std::ranges::find(sizes, served.args_size) == sizes.end()) {
      return "its arguments of " + served.name + " have " + std::to_string(served.args_size) +
             " bytes, this library's have " + std::to_string(sizes.front());
    }
  }
  for (const Recipe& recipe : arrival.recipes) {
    const auto op = ops.find(recipe.op);
    if (op == ops.end()) return "it serves op '" + std::string(recipe.op) + "', which does not exist";
    if (std::string why = name_problem(recipe.name); !why.empty()) return "it brings a backend " + why;
    std::vector<std::string>& backends = op->second.backends;
    if (std::ranges::find(backends, recipe.name) != backends.end()) {
      return "it brings backend '" + std::string(recipe.name) + "', which op " + std::string(recipe.op) +
             " has already";
    }
    backends.emplace_back(recipe.name);
  }
  return "";
}

}  // namespace fla::dispatch
