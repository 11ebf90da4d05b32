#include "fla/dispatch/registry/admission.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/snapshot_store.h"

namespace fla::dispatch {
namespace {

std::string objection_to(const Arrival& arrival, const Catalog& all) {
  std::vector<PresentOp> present;
  for (const auto& [name, op] : all.ops) {
    PresentOp& its = present.emplace_back(PresentOp{.name = name});
    // Those that are there, not those that files promise: this file's own are among them.
    for (const auto& [recipe, origin] : all.recipes) {
      if (recipe.op == name) its.backends.emplace_back(recipe.name);
    }
    for (const auto& entry : op.entries) its.backends.push_back(entry->name);
    for (const FunctionBase* function : op.functions)
      its.functions.push_back({function->name(), function->description().args_size});
  }
  if (std::string why = objection(arrival, present); !why.empty()) return why;
  for (const Recipe& recipe : arrival.recipes) {
    const auto op = all.ops.find(recipe.op);
    if (op == all.ops.end()) continue;
    if (std::string why = mismatch(op->second.functions, recipe.op, recipe.name, recipe.slots());
        !why.empty())
      return why;
  }
  return "";
}

/// An entry that says why nothing of the plugin is used.
std::shared_ptr<Entry> refused_entry(const Arrival& arrival, const std::string& why, const Op& op,
                                     const Catalog& all) {
  auto entry = std::make_shared<Entry>();
  entry->name = arrival.plugin;
  const auto is_taken = [&] { return entry->name.empty() || all.has_backend(op, entry->name); };
  if (is_taken()) entry->name = std::filesystem::path(arrival.path).filename();
  if (is_taken()) entry->name = arrival.path;
  entry->origin = arrival.path;
  entry->info.name = entry->name;
  entry->availability = Availability::no("plugin " + arrival.path + ": " + why);
  return entry;
}

}  // namespace

std::string admit(Lock& lock, const Arrival& arrival, std::string_view called) {
  Catalog& all = catalog(lock);
  std::string refused = arrival.refused.empty() ? objection_to(arrival, all) : arrival.refused;
  if (!refused.empty()) {
    const auto found = all.ops.find(called);
    if (found == all.ops.end()) return refused;
    Op& op = found->second;
    all.add(lock, op, refused_entry(arrival, refused, op, all));
  } else {
    for (const FunctionBase* function : arrival.functions) all.add(*function);
    for (const Recipe& recipe : arrival.recipes) {
      all.recipes.push_back({recipe, arrival.path});
      all.ops.find(recipe.op)->second.loaded = false;
    }
  }
  snapshots(lock).make_stale(lock);
  return refused;
}

}  // namespace fla::dispatch
