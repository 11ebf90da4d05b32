#include "tools/conformance/nearest_kda.h"

#include <algorithm>

#include "tools/conformance/argument_search.h"
#include "tools/conformance/searched_kda.h"

namespace fla::conformance {
namespace {

using cases::KdaSpec;

KdaSpec spec_of(CallForm form) {
  KdaSpec spec{.B = form[Axis::B],
               .T = form[Axis::T],
               .H = form[Axis::H],
               .HV = form[Axis::HV],
               .K = form[Axis::K],
               .V = form[Axis::V],
               .dtype = form["q"].dtype,
               .gate_dtype = form["g"].dtype,
               .state_dtype = form["initial_state"].dtype,
               .initial_state = form["initial_state"].given,
               .options = {}};
  for (const Argument& argument : form.table()) {
    const Choice& choice = form[argument.name];
    if (argument.kind == ArgumentKind::flag) argument.flag(&spec.options) = choice.given;
    if (argument.kind == ArgumentKind::number && choice.given)
      argument.number(static_cast<void*>(&spec.options)) = choice.number;
  }
  return spec;
}

}  // namespace

const std::vector<KdaSpec>& NearestKda::taken_by(const KdaTarget& target) {
  const auto [found, is_new] = taken_.try_emplace({target.function, target.indices});
  if (!is_new) return found->second;
  const bool on_host = target.indices == DeviceIndices::on_host;
  for (const CallForm& form :
       taken_seeds(searched_kda(), {target.function, target.backend, target.device, on_host}))
    found->second.push_back(spec_of(form));
  return found->second;
}

std::optional<KdaSpec> NearestKda::operator()(const KdaTarget& target, const KdaSpec& wanted) {
  std::vector<KdaSpec> taken = taken_by(target);
  std::stable_partition(taken.begin(), taken.end(),
                        [&](const KdaSpec& spec) { return spec.dtype == wanted.dtype; });
  for (const KdaSpec& like : taken) {
    KdaSpec spec = wanted;
    const auto takes = [&] { return target.ask(cases::make_kda_case(spec).args).takes(); };
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

}  // namespace fla::conformance
