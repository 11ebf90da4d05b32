#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "fla/core/export.h"
#include "fla/distributed/transport.h"

using ncclComm_t = struct ncclComm*;  // as NCCL's own header has it

namespace fla::distributed {

struct NcclOptions {
  /// How long an exchange may take on its stream once what was there before it is done. When it is over the
  /// communicator is aborted, which ends the exchange.
  std::chrono::duration<double> time_limit{300};
  /// NCCL does not tell which ranks did not come. Where the program knows (from its launcher, or a store),
  /// the error names them. Called once, when something has failed, on any thread; must not use the context.
  std::function<std::vector<int>()> missing_ranks{};
};

/// Ranks of an NCCL communicator, which must live longer than this. Blocks are on the communicator's GPU, and
/// so are the tensors of calls; a tensor elsewhere is refused. Exchanges are put on the call's stream and
/// nobody waits for them: calls can be captured in a CUDA graph, and replayed by all ranks in the same order.
///
/// A thread of the transport watches the communicator's asynchronous errors and the time limit. When one is
/// found the communicator is aborted (ncclCommAbort), so that streams go on: whoever waits for one is not
/// held up for ever. Results of the exchange are undefined then. Every later call throws BackendError, and so
/// does Context::synchronize, with which results are waited for. NCCL has freed the communicator then: it
/// must be neither used nor destroyed. The exchanges of graphs are watched for errors, and for the time limit
/// inside of Context::synchronize, where it begins with the call.
///
/// Throws InvalidArgument for no communicator, BackendError for one that has failed.
FLA_API std::unique_ptr<Transport> make_nccl_transport(ncclComm_t communicator,
                                                       const NcclOptions& options = {});

}  // namespace fla::distributed
