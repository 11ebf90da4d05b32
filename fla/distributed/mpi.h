#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>

#include "fla/core/export.h"
#include "fla/distributed/transport.h"

namespace fla::distributed {

struct MpiOptions {
  /// How long a rank waits for the others in an exchange. When it is over the call throws BackendError with
  /// the ranks that did not come; finding them takes as long again at most, after an error of MPI's twice as
  /// long.
  std::chrono::duration<double> time_limit{300};
};

/// Ranks of an MPI communicator, which the program has initialised and finalises after this. Collective: the
/// communicator is duplicated, so that its messages and its error handler stay the caller's. MPI's errors
/// become BackendError; some MPI libraries take those of messages under way to MPI_COMM_WORLD's error
/// handler, which must be MPI_ERRORS_RETURN then. Memory is on the host. Calls to MPI come from the calling
/// thread alone.
FLA_API std::unique_ptr<Transport> make_mpi_transport(MPI_Comm communicator, const MpiOptions& options = {});

}  // namespace fla::distributed
