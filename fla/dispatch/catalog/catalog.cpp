#include "fla/dispatch/catalog/catalog.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fla/core/errors.h"
#include "fla/dispatch/call/counter_table.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/settings/checks.h"

namespace fla::dispatch {

Catalog& catalog(Lock&) {
  static Catalog& all = *new Catalog;  // never freed: calls may outlive static objects
  return all;
}

Op& Catalog::op_named(std::string_view name) {
  const auto found = ops.find(name);
  if (found != ops.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [op, ignored] : ops) known.push_back(op);
  throw InvalidArgument("op", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

const FunctionBase* Catalog::find(std::string_view op, std::string_view function) const {
  const auto known = ops.find(op);
  if (known == ops.end()) return nullptr;
  const auto found = std::ranges::find(known->second.functions, function, &FunctionBase::name);
  return found == known->second.functions.end() ? nullptr : *found;
}

bool Catalog::has_backend(const Op& op, std::string_view backend) const {
  return std::ranges::find(op.entries, backend, &Entry::name) != op.entries.end() ||
         std::ranges::any_of(recipes, [&](const KnownRecipe& known) {
           return known.recipe.op == op.name && known.recipe.name == backend;
         });
}

std::vector<KnownRecipe> Catalog::waiting(const Op& op) const {
  std::vector<KnownRecipe> found;
  for (const KnownRecipe& known : recipes) {
    if (known.recipe.op == op.name &&
        std::ranges::find(op.entries, known.recipe.name, &Entry::name) == op.entries.end())
      found.push_back(known);
  }
  return found;
}

void Catalog::add(const FunctionBase& function) {
  Op& op = ops[std::string(function.op())];
  op.name = function.op();
  op.functions.push_back(&function);
  (void)new_counter(op.name, function.name(), kOriginalKernel.name);
  for (const auto& entry : op.entries) entry->add_pair(op.name, function.name());
}

void Catalog::add(Lock& lock, Op& op, std::shared_ptr<Entry> entry) {
  entry->id = ++last_id_;
  for (const FunctionBase* function : op.functions) entry->add_pair(op.name, function->name());
  op.entries.push_back(std::move(entry));
  std::ranges::sort(op.entries, {}, [](const auto& e) { return std::tie(e->info.priority, e->name); });
  snapshots(lock).forget(lock, op.name);
}

std::shared_ptr<Entry> Catalog::remove(Lock& lock, std::uint64_t id) {
  for (auto& [name, op] : ops) {
    const auto found = std::ranges::find(op.entries, id, &Entry::id);
    if (found == op.entries.end()) continue;
    std::shared_ptr<Entry> gone = *found;
    op.entries.erase(found);
    snapshots(lock).forget(lock, op.name);
    lock.drop(gone);
    return gone;
  }
  return nullptr;
}

std::string name_problem(std::string_view backend) {
  if (backend != kOriginalKernel.name) return "";
  return "named '" + std::string(backend) +
         "', which is what the op's own kernel is called: choose another name";
}

std::string mismatch(const std::vector<const FunctionBase*>& functions, std::string_view op,
                     std::string_view backend, const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    const auto found = std::ranges::find(functions, slot.function, &FunctionBase::name);
    if (found == functions.end() || slot.signature == nullptr) continue;
    const FunctionBase::Description& expected = (*found)->description();
    const std::string what = std::string(backend) + "'s " + std::string(slot.function);
    if (expected.args_size != slot.args_size) {
      return what + " takes arguments of " + std::to_string(slot.args_size) + " bytes, " + std::string(op) +
             "'s are " + std::to_string(expected.args_size);
    }
    if (*expected.signature != *slot.signature)
      return what + " has other types than " + std::string(op) + "'s";
  }
  return "";
}

}  // namespace fla::dispatch
