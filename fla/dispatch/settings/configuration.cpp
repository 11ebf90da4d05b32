#include "fla/dispatch/settings/configuration.h"

#include <algorithm>

namespace fla::dispatch {

std::shared_ptr<const Decision> Configuration::decision(std::string_view op, ArgumentTable table) const {
  for (const Compiled& known : compiled) {
    if (known.op == op && known.table.data() == table.data()) return known.decision;
  }
  std::vector<const Condition*> conditions;
  for (const ConfigRule& rule : rules) {
    if (rule.op == op) conditions.push_back(rule.when ? &*rule.when : nullptr);
  }
  compiled.push_back({std::string(op), table, std::make_shared<const Decision>(conditions, table)});
  return compiled.back().decision;
}

void Configuration::compile(const KnownNames& known) const {
  for (const auto& [name, op] : known.ops) {
    if (std::ranges::find(rules, name, &ConfigRule::op) == rules.end()) continue;
    for (const ArgumentTable table : op.tables) (void)decision(name, table);
  }
}

}  // namespace fla::dispatch
