#include "tools/conformance/nearest_call.h"

#include <algorithm>
#include <numeric>

#include "tools/conformance/argument_search.h"
#include "tools/conformance/searched_recurrence.h"

namespace fla::conformance {
namespace {

template <class Args>
cases::CaseSpec<Args> spec_of(CallForm form) {
  const auto dtype_of = [&](std::string_view name) {
    return find_argument(form.table(), name) != nullptr ? form[name].dtype : DType::f32;
  };
  cases::CaseSpec<Args> spec{
      .B = form[Axis::B],
      .T = form[Axis::T],
      .H = form[Axis::H],
      .HV = form[Axis::HV],
      .K = form[Axis::K],
      .V = form[Axis::V],
      .dtype = form["q"].dtype,
      .gate_dtype = dtype_of(find_argument(form.table(), "g") != nullptr ? "g" : "beta"),
      .state_dtype = form["initial_state"].dtype,
      .initial_state = form["initial_state"].given,
      .options = {}};
  for (const Argument& argument : form.table()) set_option(argument, form[argument.name], &spec.options);
  if constexpr (requires { spec.options.g_gamma; }) spec.head_gates = form["g_gamma"].given;
  return spec;
}

/// Makes sequences longer, so many tokens long on average; empty ones stay empty.
template <class Args>
void lengthen(cases::CaseSpec<Args>& spec, std::int64_t mean) {
  spec.T = std::max(spec.T, mean);
  const std::int64_t tokens = std::accumulate(spec.lengths.begin(), spec.lengths.end(), std::int64_t{0});
  if (tokens == 0) return;
  const std::int64_t wanted = mean * static_cast<std::int64_t>(spec.lengths.size());
  for (std::int64_t& length : spec.lengths)
    length *= std::max<std::int64_t>((wanted + tokens - 1) / tokens, 1);
}

}  // namespace

template <RecurrenceArgs Args>
const std::vector<cases::CaseSpec<Args>>& NearestCall<Args>::taken_by(const OpTarget<Args>& target) {
  const auto [found, is_new] = taken_.try_emplace({target.function, target.indices});
  if (!is_new) return found->second;
  const bool on_host = target.indices == DeviceIndices::on_host;
  for (const CallForm& form :
       taken_seeds(searched_recurrence<Args>(), {target.function, target.backend, target.device, on_host}))
    found->second.push_back(spec_of<Args>(form));
  return found->second;
}

template <RecurrenceArgs Args>
std::optional<cases::CaseSpec<Args>> NearestCall<Args>::operator()(const OpTarget<Args>& target,
                                                                   const cases::CaseSpec<Args>& wanted) {
  using Spec = cases::CaseSpec<Args>;
  std::vector<Spec> taken = taken_by(target);
  std::stable_partition(taken.begin(), taken.end(),
                        [&](const Spec& spec) { return spec.dtype == wanted.dtype; });
  for (const Spec& like : taken) {
    Spec spec = wanted;
    const auto takes = [&] { return target.ask(cases::make_case(spec).args).takes(); };
    if (like.T >= kLongCall) {
      lengthen(spec, like.T);
      if (takes()) return spec;
    }
    spec.K = like.K, spec.V = like.V;
    if (takes()) return spec;
    spec.H = like.H, spec.HV = like.HV, spec.fused_projection = false;
    if (takes()) return spec;
    spec.gate_dtype = like.gate_dtype, spec.state_dtype = like.state_dtype;
    if (takes()) return spec;
    spec.dtype = like.dtype;
    if (takes()) return spec;
    spec.options = like.options, spec.initial_state = like.initial_state;
    if (takes()) return spec;
    spec.B = like.B, spec.T = like.T, spec.lengths.clear();
    if (takes()) return spec;
  }
  return std::nullopt;
}

#define FLA_OP(NAME, ARGS) template class NearestCall<ARGS>;
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
