# What the options ask for, held against what this version and this machine have. Each thing that is left out leaves a
# line in FLA_LEFT_OUT, which the summary prints.

set(FLA_LEFT_OUT)
include(FlaCuda)

# Named ranges for profilers need the CUDA toolkit's headers and nothing else of it.
if(NOT FLA_CUDA STREQUAL "OFF")
  set(toolkit)
  if(FLA_NVCC)
    file(REAL_PATH ${FLA_NVCC} toolkit)
    cmake_path(GET toolkit PARENT_PATH toolkit)
    cmake_path(GET toolkit PARENT_PATH toolkit)
  endif()
  find_path(FLA_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${toolkit} ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES include
            PATHS /usr/local/cuda)
  mark_as_advanced(FLA_NVTX_INCLUDE)
  if(NOT FLA_NVTX_INCLUDE)
    list(APPEND FLA_LEFT_OUT "NVTX ranges: nvtx3/nvToolsExt.h, of the CUDA toolkit, was not found")
  endif()
else()
  unset(FLA_NVTX_INCLUDE CACHE)
  list(APPEND FLA_LEFT_OUT "NVTX ranges: FLA_CUDA=OFF")
endif()

include(FlaPython)
include(FlaMpi)
include(FlaNccl)

if(NOT FLA_TOOLS)
  list(APPEND FLA_LEFT_OUT "fla command and benchmarks: FLA_TOOLS=OFF")
endif()
if(NOT FLA_TESTS)
  list(APPEND FLA_LEFT_OUT "tests: FLA_TESTS=OFF")
endif()
