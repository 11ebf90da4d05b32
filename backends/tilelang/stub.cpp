// In the place of tilelang.cu where the build has no template headers of TileLang.
#include "backends/tilelang/tilelang.h"

namespace fla::tilelang {

std::string_view why_not_built() { return "its kernels are not in this build: " FLA_TILELANG_LEFT_OUT; }

std::string instances_of(const RecurrenceCall&) { return {}; }

std::size_t workspace(const RecurrenceCall&) { return 0; }

cudaError_t launch(const RecurrenceCall&, void*, cudaStream_t) { return cudaErrorNotSupported; }

}  // namespace fla::tilelang
