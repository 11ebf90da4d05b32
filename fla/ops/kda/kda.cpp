#include "fla/ops/kda/kda.h"

#include <algorithm>

#include "fla/core/errors.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/choice/accepting_backends.h"
#include "fla/ops/kda/call_of.h"
#include "fla/ops/kda/kda_cuda.h"
#include "fla/ops/recurrence/cpu/kernels.h"

namespace fla {
namespace {

KdaResult run_on_cpu(const KdaArgs& args, void (*kernel)(const RecurrenceCall&)) {
  KdaResult result = make_result(args);
  kernel(call_of(args, result));
  return result;
}

}  // namespace

DISPATCH("kda", KdaResult, chunk_kda, const KdaArgs& args) {
  return args.q.device().is_cpu() ? run_on_cpu(args, recurrence::chunk_on_cpu) : chunk_kda_cuda(args);
}

DISPATCH("kda", KdaResult, fused_recurrent_kda, const KdaArgs& args) {
  return args.q.device().is_cpu() ? run_on_cpu(args, recurrence::recurrent_on_cpu) : recurrent_kda_cuda(args);
}

std::string_view front_door(const KdaArgs& args) {
  // A chunk pays off once a sequence fills a good part of one; the mean length decides for packed sequences.
  constexpr std::int64_t kShort = 8;
  if (!args.q.defined() || args.q.rank() < 2) return "chunk_kda";
  const std::int64_t sequences =
      args.cu_seqlens.defined() && args.cu_seqlens.rank() == 1 ? args.cu_seqlens.size(0) - 1 : 1;
  return args.q.size(1) <= kShort * sequences ? "fused_recurrent_kda" : "chunk_kda";
}

KdaResult kda(const KdaArgs& args) {
  return front_door(args) == "chunk_kda" ? chunk_kda(args) : fused_recurrent_kda(args);
}

std::size_t workspace_size(const KdaArgs& args) {
  validate_arguments(args);
  if (args.q.device().is_cpu()) return 0;
  std::size_t bytes = workspace_size_cuda(args);
  KdaArgs without = args;  // a verifier may refuse a workspace that is too small for it
  without.workspace = {};
  for (const dispatch::AcceptingBackend& accepting : dispatch::accepting_backends("kda", without)) {
    const auto* backend = dynamic_cast<const KdaBackend*>(accepting.backend.get());
    if (backend == nullptr) continue;  // a lambda: asks for none
    bytes = std::max(bytes, backend->workspace_size(accepting.function, without));
  }
  return bytes;
}

KdaResult KdaBackend::chunk_kda(const KdaArgs&) {
  throw BackendError("chunk_kda is not implemented", BackendError::Wrote::nothing);
}
Verdict KdaBackend::chunk_kda_verifier(const KdaArgs&) const { return accept(); }
KdaResult KdaBackend::fused_recurrent_kda(const KdaArgs&) {
  throw BackendError("fused_recurrent_kda is not implemented", BackendError::Wrote::nothing);
}
Verdict KdaBackend::fused_recurrent_kda_verifier(const KdaArgs&) const { return accept(); }
std::size_t KdaBackend::workspace_size(std::string_view, const KdaArgs&) const { return 0; }
std::string KdaBackend::route(std::string_view, const KdaArgs&) const { return ""; }

}  // namespace fla
