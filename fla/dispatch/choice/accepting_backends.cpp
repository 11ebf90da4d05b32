#include "fla/dispatch/choice/accepting_backends.h"

#include <algorithm>
#include <iterator>

#include "fla/dispatch/call/answer.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"

namespace fla::dispatch {
namespace {

/// The op's backends that are available, whatever the settings say of them, and its functions.
struct Available {
  std::vector<std::shared_ptr<const Entry>> entries;
  std::vector<const FunctionBase*> functions;
};

Available available(std::string_view name) {
  Lock lock;
  settings_in_force(lock).ensure_read(lock);
  load(lock, name);
  const Op& op = catalog(lock).op_named(name);
  Available found{{}, op.functions};
  std::ranges::copy_if(op.entries, std::back_inserter(found.entries),
                       [](const auto& entry) { return entry->availability.available; });
  return found;
}

}  // namespace

std::vector<AcceptingBackend> accepting_backends(std::string_view op, const std::type_info& args_type,
                                                 const void* args) {
  std::vector<AcceptingBackend> found;
  const auto [entries, functions] = available(op);
  for (const auto& entry : entries) {
    for (const FunctionBase* function : functions) {
      const Slot* slot = entry->slot(function->name());
      if (slot == nullptr || slot->run == nullptr || *function->description().args_type != args_type)
        continue;
      const Verdict verdict = ask({slot->verify, slot->run, entry->backend.get(), nullptr, 0}, args);
      if (!verdict.ok()) continue;
      found.push_back(
          {std::shared_ptr<const BaseBackend>(entry, entry->backend.get()), function->name(), verdict});
    }
  }
  return found;
}

}  // namespace fla::dispatch
