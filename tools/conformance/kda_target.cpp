#include "tools/conformance/kda_target.h"

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "tools/conformance/child.h"
#include "tools/conformance/agreement.h"

namespace fla::conformance {
namespace {

KdaResult run_as_it_is(const KdaTarget& target, const KdaArgs& args) {
  const bool chunk = target.function == "chunk_kda";
  if (target.backend == "original")
    return chunk ? original::chunk_kda(args) : original::fused_recurrent_kda(args);
  const ScopedPolicy policy(only("kda", target.backend));
  return chunk ? chunk_kda(args) : fused_recurrent_kda(args);
}

}  // namespace

KdaResult KdaTarget::run(const KdaArgs& args) const {
  note_progress(function + " [" + describe(args) + "]");
  if (args.q.device() == device) return run_as_it_is(*this, args);
  DeviceCall call(args, device, indices);
  KdaResult result = call.bring_back(run_as_it_is(*this, call.args()));
  if (!call.damage().empty()) throw Error(call.damage());
  return result;
}

Answer KdaTarget::ask(const KdaArgs& args) const {
  if (backend == "original") return {"selected", "", ""};
  if (args.q.device() != device) return ask(DeviceCall(args, device, indices).args());
  const ScopedPolicy policy(only("kda", backend));
  for (const Explanation::Row& row : explain("kda", function, args).rows) {
    if (row.name == backend) return {row.state, row.reason, row.place};
  }
  return {"absent", "", ""};
}

DType KdaTarget::precision() const { return precision_of("kda", backend); }

}  // namespace fla::conformance
