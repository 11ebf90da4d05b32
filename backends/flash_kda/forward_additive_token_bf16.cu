#include "backends/flash_kda/launch_forward.cuh"

namespace fla::flash_kda {

template cudaError_t launch_forward<Half16::bf16, GateKind::token, Rule::additive>(const Launch&,
                                                                                   const Params&);

}  // namespace fla::flash_kda
