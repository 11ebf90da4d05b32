#include "fla/ops/kda/kda.h"

#include "fla/core/errors.h"
#include "fla/dispatch/dispatch.h"
#include "fla/ops/kda/kda_chunk.h"
#include "fla/ops/kda/kda_recurrence.h"

namespace fla {

DISPATCH("kda", KdaResult, chunk_kda, const KdaArgs& args) { return chunk_kda_cpu(args); }

DISPATCH("kda", KdaResult, fused_recurrent_kda, const KdaArgs& args) { return recurrent_kda_cpu(args); }

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

KdaResult KdaBackend::chunk_kda(const KdaArgs&) {
  throw BackendError("chunk_kda is not implemented", BackendError::Wrote::nothing);
}
Verdict KdaBackend::chunk_kda_verifier(const KdaArgs&) const { return accept(); }
KdaResult KdaBackend::fused_recurrent_kda(const KdaArgs&) {
  throw BackendError("fused_recurrent_kda is not implemented", BackendError::Wrote::nothing);
}
Verdict KdaBackend::fused_recurrent_kda_verifier(const KdaArgs&) const { return accept(); }

}  // namespace fla
