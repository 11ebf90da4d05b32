#include "fla/dispatch/registry/known_names.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/plugins/plugin_loader.h"

namespace fla::dispatch {

KnownNames known_names(Lock& lock) {
  const Plugins& plugins = Plugins::instance();
  const Catalog& all = catalog(lock);
  KnownNames known;
  const auto add = [](std::vector<std::string>& names, std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const auto& [name, op] : all.ops) {
    KnownNames::Op& its = known.ops[name];
    its.complete = !plugins.may_bring_backends(name);
    for (const auto& [recipe, origin] : all.recipes) {
      if (recipe.op == name) add(its.backends, recipe.name);
    }
    for (const auto& entry : op.entries) add(its.backends, entry->name);
    for (const FunctionBase* function : op.functions) its.tables.push_back(function->description().arguments);
  }
  for (const std::string& backend : plugins.promised_backends()) {
    const auto dot = backend.find('.');
    if (const auto op = known.ops.find(backend.substr(0, dot)); op != known.ops.end())
      add(op->second.backends, backend.substr(dot + 1));
  }
  known.complete = !plugins.may_bring_ops();
  return known;
}

}  // namespace fla::dispatch
