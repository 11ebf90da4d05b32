#include "fla/ops/recurrence/formula.h"

namespace fla {
namespace {

/// The state after its decay; h is the value head, from 0.
std::string decayed(const RecurrenceOp& op) {
  switch (op.gate) {
    case GateKind::none: return "S";
    case GateKind::token: return "exp(g_t) S";
    case GateKind::channel: return "diag(exp(g_t)) S";
    case GateKind::head: break;
  }
  switch (op.head_gate) {
    case HeadGate::given: return "exp(g_gamma) S";
    case HeadGate::retention: return "(1 - 2^(-5 - h)) S";
    case HeadGate::slopes: return "exp(-8 h / HV * (1 - layer_idx / num_layers)) S";
  }
  return "S";
}

std::string update(const RecurrenceOp& op) {
  const std::string state = decayed(op);
  switch (op.rule) {
    case Rule::additive: return "S <- " + state + " + k_t v_t^T\n";
    case Rule::low_rank: return "S <- " + state + " + b_t (a_t^T S)^T + k_t v_t^T\n";
    case Rule::delta: break;
  }
  const std::string decay = op.gate == GateKind::none ? "" : "S <- " + state + "\n";
  return decay + "S <- S + k_t (beta_t (v_t - k_t^T S))^T\n";
}

}  // namespace

std::string formula_of(const RecurrenceOp& op) { return update(op) + "o_t = scale * q_t^T S\n"; }

}  // namespace fla
