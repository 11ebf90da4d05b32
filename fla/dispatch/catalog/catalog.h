#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/entry.h"
#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/catalog/registration.h"

/// What is registered; not installed.
namespace fla::dispatch {

struct Op {
  std::string name;
  std::vector<const FunctionBase*> functions;
  std::vector<std::shared_ptr<Entry>> entries;  ///< in ascending priority, ties by name
  bool loaded = false;
  bool wanted = false;  ///< it has been loaded once: what comes later is loaded at once
};

struct KnownRecipe {
  Recipe recipe;
  std::string origin;  ///< as Entry::origin
};

/// Every op, its functions, its backends, and the recipes of those that have not been made yet. Ops stay.
struct Catalog {
  std::map<std::string, Op, std::less<>> ops;
  std::vector<KnownRecipe> recipes;

  /// The op of that name. Throws InvalidArgument.
  Op& op_named(std::string_view name);
  /// Null when there is none.
  const FunctionBase* find(std::string_view op, std::string_view function) const;
  /// Whether the op has a backend of that name, or a recipe for one.
  bool has_backend(const Op& op, std::string_view backend) const;
  /// Those that wait to be made for the op.
  std::vector<KnownRecipe> waiting(const Op& op) const;

  void add(const FunctionBase& function);
  void add(Lock& lock, Op& op, std::shared_ptr<Entry> entry);
  /// The entry that was taken out, or null.
  std::shared_ptr<Entry> remove(Lock& lock, std::uint64_t id);

 private:
  std::uint64_t last_id_ = 0;
};

/// The process's, for whoever holds the lock.
Catalog& catalog(Lock& lock);

/// Why no backend may have this name; empty: one may.
std::string name_problem(std::string_view backend);

/// Why a backend cannot serve these functions of an op; empty when it can.
std::string mismatch(const std::vector<const FunctionBase*>& functions, std::string_view op,
                     std::string_view backend, const std::vector<Slot>& slots);

}  // namespace fla::dispatch
