#include "fla/dispatch/catalog/entry.h"

#include <algorithm>
#include <utility>

#include "fla/dispatch/call/counter_table.h"

namespace fla::dispatch {

const Slot* Entry::slot(std::string_view function) const {
  const auto found = std::ranges::find(slots, function, &Slot::function);
  return found == slots.end() ? nullptr : &*found;
}

void Entry::add_pair(std::string_view op, std::string_view function) {
  if (const Slot* its = slot(function); its != nullptr && its->run != nullptr) pair(op, function);
}

const Entry::Pair& Entry::pair(std::string_view op, std::string_view function) {
  const auto found = pairs.find(function);
  if (found != pairs.end()) return found->second;
  auto breaker = new_breaker(op, function, name);
  return pairs.emplace(function, Pair{new_counter(op, function, name), std::move(breaker)}).first->second;
}

Entry::~Entry() {
  for (const auto& [function, pair] : pairs) release_counter(pair.counter);
}

}  // namespace fla::dispatch
