#include "backends/flash_kda/launch_forward.cuh"

namespace fla::flash_kda {

template cudaError_t launch_forward<Half16::bf16, GateKind::channel, Rule::delta>(const Launch&,
                                                                                  const Params&);
template cudaError_t launch_part<Half16::bf16, Rule::delta>(const Launch&, const Params&);

}  // namespace fla::flash_kda
