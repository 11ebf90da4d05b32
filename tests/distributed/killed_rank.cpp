#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fla/core/errors.h"
#include "fla/distributed/mpi.h"
#include "fla/distributed/ops.h"

/// killed_rank RANK CALLS: every rank makes calls of kda over all of them; that rank is killed after so many.
/// The others print what they are told, and end without MPI_Finalize, which would wait for it.
int main(int argc, char** argv) {
  using namespace fla::distributed;
  if (argc != 3) return 2;
  const int victim = std::atoi(argv[1]), calls = std::atoi(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::int64_t tokens = 64L * ranks;
  const std::int64_t cu_seqlens[] = {0, tokens};
  Context context(make_mpi_transport(MPI_COMM_WORLD, {.time_limit = std::chrono::duration<double>(2)}),
                  cu_seqlens, Placement::contiguous(tokens, ranks));
  const fla::Tensor keys = fla::Tensor::zeros({1, 64, 1, 16}, fla::DType::f32),
                    beta = fla::Tensor::zeros({1, 64, 1}, fla::DType::f32);
  std::string told = "nothing";
  try {
    for (int call = 0; call < calls + 2; ++call) {
      if (call == calls && rank == victim) std::raise(SIGKILL);
      (void)chunk_kda(context, {.q = keys, .k = keys, .v = keys, .g = keys, .beta = beta});
    }
  } catch (const fla::BackendError& error) {
    told = error.what();
  }
  std::printf("rank %d was told: %s\n", rank, told.c_str());
  std::fflush(stdout);
  _exit(0);
}
