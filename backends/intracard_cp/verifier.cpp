#include "backends/intracard_cp/verifier.h"

#include "backends/intracard_cp/cut.h"

namespace fla::intracard_cp {
namespace {

Verdict verify_batches(const char* name, const TensorView& rows) {
  FLA_REFUSE_IF(rows.defined() && rows.size(0) > 1 && rows.stride(0) != rows.size(1) * rows.stride(1),
                "requires batches of {} one after another, {} elements apart, got {}", name,
                rows.size(1) * rows.stride(1), rows.stride(0));
  return accept();
}

Verdict verify_sizes(const recurrence::Arguments& args, const CudaDevice& device, std::int64_t least_tokens) {
  const Sizes sizes = sizes_of(args);
  const std::int64_t most = room_for(sizes, device.multiprocessors) / kLeastParts;
  FLA_REFUSE_IF(sizes.N * sizes.blocks > most,
                "requires at most {} blocks of 32 values in all heads of all sequences, got {}", most,
                sizes.N * sizes.blocks);
  FLA_REFUSE_IF(sizes.N == 0 || sizes.tokens / sizes.N < least_tokens,
                "requires {} tokens a sequence, got {} in {} sequences", least_tokens, sizes.tokens, sizes.N);
  return accept();
}

}  // namespace

Verdict verify(const recurrence::Arguments& args, const CudaDevice* device, std::int64_t least_tokens) {
  FLA_VERIFY(cuda::verify_device(args, device, kDevices));
  FLA_REFUSE_IF(args.checkpoint_every.has_value(), "requires a call without checkpoints");
  FLA_REFUSE_IF(args.normalize, "requires a call without normalize, whose sums go beyond the state");
  FLA_VERIFY(verify_sizes(args, *device, least_tokens));
  FLA_VERIFY(verify_batches("q", args.q));
  FLA_VERIFY(verify_batches("k", args.k));
  FLA_VERIFY(verify_batches("v", args.v));
  FLA_VERIFY(verify_batches("g", args.g));
  FLA_VERIFY(verify_batches("beta", args.beta));
  FLA_VERIFY(verify_batches("a", args.a));
  FLA_VERIFY(verify_batches("b", args.b));
  return verify_batches("out", args.out);
}

}  // namespace fla::intracard_cp
