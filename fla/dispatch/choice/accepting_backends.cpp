#include "fla/dispatch/choice/accepting_backends.h"

#include "fla/dispatch/registry/registry_state.h"

namespace fla::dispatch {

std::vector<AcceptingBackend> accepting_backends(std::string_view op, const std::type_info& args_type,
                                                 const void* args) {
  std::vector<AcceptingBackend> found;
  const auto [entries, functions] = Registry::instance().available(op);
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
