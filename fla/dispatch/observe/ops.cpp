#include "fla/dispatch/observe/ops.h"

#include "fla/dispatch/call/thread_state.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/choice/standing.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"

namespace fla {

std::vector<OpStatus> ops() {
  using namespace dispatch;
  Lock lock;
  SettingsInForce& settings = settings_in_force(lock);
  settings.ensure_read(lock);
  const Catalog& all = catalog(lock);
  std::vector<std::string> known = Plugins::instance().ops();
  for (const auto& [name, op] : all.ops) known.push_back(name);
  for (const std::string& name : known) load(lock, name);
  load_known(lock);  // those that plugins brought
  std::vector<OpStatus> found;
  for (const auto& [name, op] : all.ops) {
    OpStatus status{.name = name,
                    .functions = {},
                    .arguments = op.functions.front()->description().arguments,
                    .tables = {},
                    .backends = {},
                    .original = {}};
    for (const FunctionBase* function : op.functions) {
      status.functions.emplace_back(function->name());
      status.tables.push_back(function->description().arguments);
    }
    const Policy policy = settings.layers.together(nullptr, thread_state.scope);
    for (const auto& entry : op.entries) {
      BackendStatus row{.info = entry->info,
                        .origin = entry->origin,
                        .functions = {},
                        .available = entry->availability.available,
                        .reason = entry->availability.reason,
                        .variables = {}};
      for (const Slot& slot : entry->slots) {
        if (slot.run != nullptr) row.functions.emplace_back(slot.function);
      }
      const Standing where = standing_by_policy(op, *entry, policy, settings);
      row.enabled = where.state.empty();
      if (!row.enabled && row.available) row.reason = where.reason;
      if (entry->backend != nullptr) {
        const auto own = entry->backend->variables();
        row.variables.assign(own.begin(), own.end());
      }
      status.backends.push_back(std::move(row));
    }
    const Standing original = standing_by_require(policy, name, kOriginalKernel.name);
    status.original = {.info = kOriginalKernel,
                       .origin = "",
                       .functions = status.functions,
                       .enabled = original.state.empty(),
                       .reason = original.reason,
                       .variables = {}};
    found.push_back(std::move(status));
  }
  return found;
}

}  // namespace fla
