#include "tests/conformance/kda_target.h"

#include "fla/dispatch/explain.h"
#include "fla/dispatch/policy.h"

namespace fla::conformance {
namespace {

Policy only(const std::string& backend) {
  return {.disable_dispatch = false,
          .enable = {{backend, true}},
          .order = {{"kda", {backend}}},
          .require = {{"kda", backend}}};
}

}  // namespace

KdaResult KdaTarget::run(const KdaArgs& args) const {
  const bool chunk = function == "chunk_kda";
  if (backend == "original") return chunk ? original::chunk_kda(args) : original::fused_recurrent_kda(args);
  const ScopedPolicy policy(only(backend));
  return chunk ? chunk_kda(args) : fused_recurrent_kda(args);
}

KdaTarget::Answer KdaTarget::ask(const KdaArgs& args) const {
  if (backend == "original") return {"selected", "", ""};
  const ScopedPolicy policy(only(backend));
  for (const Explanation::Row& row : explain("kda", function, args).rows) {
    if (row.name == backend) return {row.state, row.reason, row.place};
  }
  return {"absent", "", ""};
}

}  // namespace fla::conformance
