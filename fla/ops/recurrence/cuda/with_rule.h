#pragma once

#include <type_traits>

#include "fla/ops/recurrence/call.h"

namespace fla::cuda {

/// body(std::integral_constant<Rule, …>)
template <class Body>
auto with_rule(Rule rule, Body&& body) {
  switch (rule) {
    case Rule::additive: return body(std::integral_constant<Rule, Rule::additive>{});
    case Rule::low_rank: return body(std::integral_constant<Rule, Rule::low_rank>{});
    default: return body(std::integral_constant<Rule, Rule::delta>{});
  }
}

}  // namespace fla::cuda
