#pragma once

#include <string_view>

#include "fla/core/export.h"

namespace fla::dispatch {

class FunctionBase;

/// Whether the runs of kernels are to be marked with NVTX ranges, as the environment says now: FLA_NVTX=1, or
/// FLA_NVTX unset and NVTX_INJECTION64_PATH set, which is how profilers put themselves into a process. Throws
/// ConfigError for a FLA_NVTX that is no switch, or that is on where NVTX was left out of the build.
FLA_API bool tracing();

/// A named range of the calling thread in NVTX' domain "fla", from here to the end of the scope, such as
/// "kda.chunk_kda -> cpu_simd". Made only where tracing() said yes. Allocates the first time that a pair of
/// function and backend is marked.
class FLA_API TraceRange {
 public:
  TraceRange(const FunctionBase& function, std::string_view backend);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace fla::dispatch
