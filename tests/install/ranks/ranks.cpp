#include <cstdint>
#include <iostream>
#include <vector>

#include "fla/distributed/mpi.h"
#include "fla/distributed/ops.h"

int main(int argc, char** argv) {
  using namespace fla::distributed;
  MPI_Init(&argc, &argv);
  {
    const std::vector<std::int64_t> cu_seqlens{0, 3, 8};
    const Context context(make_mpi_transport(MPI_COMM_WORLD), cu_seqlens, Placement::contiguous(8, 1));
    std::cout << context.pieces().size() << " pieces, " << context.tokens() << " tokens\n";
  }
  MPI_Finalize();
}
