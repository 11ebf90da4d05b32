# NCCL in the build, as FLA_NCCL asks for it: sets FLA_HAS_NCCL, or FLA_NO_NCCL to the reason why there is none.

set(FLA_HAS_NCCL OFF CACHE INTERNAL "Whether fla::distributed knows NCCL")
set(FLA_NO_NCCL)

string(TOUPPER "${FLA_NCCL}" FLA_NCCL)
if(NOT FLA_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLA_NCCL: expected AUTO, ON or OFF, got ${FLA_NCCL}")
endif()

if(FLA_NCCL STREQUAL "OFF")
  set(FLA_NO_NCCL "FLA_NCCL=OFF")
elseif(NOT FLA_HAS_CUDA)
  set(FLA_NO_NCCL "the build has no CUDA kernels")
else()
  find_package(NCCL 2.18 QUIET)
  if(NOT NCCL_FOUND)
    set(FLA_NO_NCCL "no NCCL 2.18 in NCCL_DIR, .deps/nccl, the CUDA toolkit, CMAKE_PREFIX_PATH or python3's packages")
  endif()
endif()

if(NOT FLA_NO_NCCL)
  set(FLA_HAS_NCCL ON CACHE INTERNAL "")
elseif(FLA_NCCL STREQUAL "ON")
  message(FATAL_ERROR "FLA_NCCL=ON: ${FLA_NO_NCCL}")
else()
  list(APPEND FLA_LEFT_OUT "fla::distributed over NCCL: ${FLA_NO_NCCL}")
endif()
