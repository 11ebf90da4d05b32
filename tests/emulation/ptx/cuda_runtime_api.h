#pragma once

/// The two names that the declarations of launch functions need. Kernels' bodies need nothing of the CUDA
/// toolkit, and the tests of them are built where there is none.
using cudaError_t = int;
using cudaStream_t = struct CUstream_st*;
