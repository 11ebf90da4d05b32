#include "tests/dispatch/mix.h"

#include "fla/dispatch/call/dispatch.h"

namespace fla_test {

DISPATCH("mix", MixResult, mix_chunk, const MixArgs&) { return {"original"}; }
DISPATCH("mix", MixResult, mix_step, const MixArgs&) { return {"original step"}; }

MixResult MixBackend::mix_chunk(const MixArgs&) { return {"nobody"}; }
fla::Verdict MixBackend::mix_chunk_verifier(const MixArgs&) const { return fla::accept(); }
MixResult MixBackend::mix_step(const MixArgs&) { return {"nobody"}; }
fla::Verdict MixBackend::mix_step_verifier(const MixArgs&) const { return fla::accept(); }
std::string MixBackend::route(std::string_view, const MixArgs&) const { return ""; }

}  // namespace fla_test
